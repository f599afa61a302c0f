"""Snapshots in a folder: what is listed, loaded, kept, removed; names, rights, links, and what is no snapshot."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.snapshotter import (
    FOLDER,
    CorruptSnapshotError,
    Entry,
    NewerSnapshotError,
    Snapshot,
    SnapshotError,
    SnapshotStore,
    UnknownSnapshotError,
)
from engines.snapshotter.telling import chosen, line_of, resumable
from tests.snapshot_child import made

SECONDS = 1_700_000_000


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    """An empty store."""
    return SnapshotStore(tmp_path / "home" / "context-bridge" / "snapshots")


def of(session: str, at: int = 0, **more: Any) -> dict[str, Any]:
    """A mapping of the format."""
    return {"session_id": session, "reason": "session_end", "timestamp": SECONDS + at, **more}


def sessions(store: SnapshotStore) -> list[str]:
    """Whose snapshots are listed."""
    return [entry.session_id for entry in store.list()]


# -- saving and finding -----------------------------------------------------------------------------------------------


def test_save_list_load_clear(store: SnapshotStore) -> None:
    """A mapping or a snapshot is saved, listed newest first, loaded by its id, and removed."""
    assert [] == store.list()
    assert 0 == store.clear()
    path = store.save(of("a", tool_calls=[{"tool": "ls"}], key_findings=["x"], task_state={"request": "r"}))
    store.save(Snapshot("b", reason="compaction", timestamp=SECONDS + 5, sequence=2))
    newest, oldest = store.list()
    assert ("b", "compaction", "2023-11-14T22:13:25+00:00", False) == (
        newest.session_id,
        newest.reason,
        newest.timestamp,
        newest.corrupt,
    )
    assert path == oldest.path
    assert path.stem == oldest.id
    loaded = store.load(oldest.id)
    assert ([{"tool": "ls"}], ["x"], {"request": "r"}, "default") == (
        loaded.tool_calls,
        loaded.key_findings,
        loaded.task_state,
        loaded.profile,
    )
    assert 1 == store.clear(oldest.id)
    assert ["b"] == sessions(store)
    assert 1 == store.clear()
    assert [] == store.list()


def test_the_same_boundary_is_one_file(store: SnapshotStore) -> None:
    """What is saved again takes its own place; another boundary of the session is another file."""
    assert store.save(of("a")) == store.save(of("a", key_findings=["more"]))
    store.save(of("a", 1))
    store.save(of("a", sequence=1))
    store.save(of("a", reason="session_reset"))
    assert 4 == len(store.list())


def test_in_the_place_of_an_earlier_one(store: SnapshotStore) -> None:
    """A conversation's compaction takes the place of its earlier ones; nobody else's goes for it."""
    mine = {"reason": "compaction", "lineage": {"conversation": "run:1"}}
    for at in range(3):
        store.save(of("a", at, **mine), instead=True)
    store.save(of("a", 3, reason="compaction"), instead=True)
    store.save(of("a", 4, reason="session_end", lineage={"conversation": "run:1"}), instead=True)
    store.save(of("a", 5, reason="compaction", lineage={"conversation": "run:2"}), instead=True)
    store.save(
        of("a", 1, reason="compaction", lineage={"conversation": "run:2"}), instead=True
    )  # late: it replaces none
    assert [5, 4, 3, 2, 1] == [round(store.load(entry.id).moment.timestamp()) - SECONDS for entry in store.list()]


def test_a_clock_that_was_put_back(store: SnapshotStore) -> None:
    """The later boundary of a conversation takes the place of the earlier one whatever the clock says."""
    mine = {"reason": "compaction", "lineage": {"conversation": "run:1"}}
    for sequence, at in ((1, 5_000), (2, 1_000), (3, 3_000)):
        store.save(of("a", at, sequence=sequence, **mine), instead=True)
    assert [3] == [entry.sequence for entry in store.list()]


def test_exactly_the_newest_are_kept(tmp_path: Path) -> None:
    """By recorded time, then by sequence, in whatever order they are saved; the time of the file does not count."""
    store = SnapshotStore(tmp_path, keep=3)
    for n, (at, sequence) in enumerate([(5, 1), (9, 0), (1, 7), (5, 2), (5, 3), (0, 9)]):
        store.save(of(f"s{n}", at, sequence=sequence))
    assert ["s1", "s4", "s3"] == sessions(store)
    assert 3 == len(list(tmp_path.glob("*.json")))


@pytest.mark.parametrize("keep", [0, -1, True, "3", 2.0])
def test_how_many_is_a_number(keep: Any, tmp_path: Path) -> None:
    """What is no number of snapshots is refused."""
    with pytest.raises(ValueError, match="keep"):
        SnapshotStore(tmp_path, keep=keep)


def test_unknown_ids(store: SnapshotStore) -> None:
    """To load an id that is not listed is an error that says where was looked; there is nothing to remove of it."""
    with pytest.raises(UnknownSnapshotError, match="no snapshot 'nobody'"):
        store.load("nobody")
    assert 0 == store.clear("nobody")
    store.save(of("a"))
    with pytest.raises(LookupError, match="of profile 'default'"):
        store.load("nobody")
    assert 0 == store.clear("nobody")
    assert ["a"] == sessions(store)


# -- names (N05) ------------------------------------------------------------------------------------------------------

EVIL = [
    "../../x",
    "/tmp/v",
    "C:\\x",
    "a/b",
    "..",
    ".",
    "",
    "x" * 300,
    "a\x00b",
    "\ud800",
    "con",
    "a.json",
    "…/ü",
    "-rf",
    "~",
    "x.tmp",
]


def test_n05_names_never_become_paths(store: SnapshotStore, tmp_path: Path) -> None:
    """N05: whatever a session is called, its file lies in the folder, and different names are different files."""
    wide = SnapshotStore(store.directory, keep=100)
    paths = [wide.save(of(name)) for name in EVIL]
    assert len(EVIL) == len({str(path).lower() for path in paths})
    assert {store.directory} == {path.parent for path in paths}
    assert {"home"} == {path.name for path in tmp_path.iterdir()}
    assert {"context-bridge"} == {path.name for path in (tmp_path / "home").iterdir()}
    assert all(len(path.name) < 100 for path in paths)
    for entry in wide.list():
        assert wide.load(entry.id).session_id == entry.session_id


@pytest.mark.parametrize("name", EVIL)
def test_n05_ids_never_become_paths(store: SnapshotStore, tmp_path: Path, name: str) -> None:
    """N05: an id that is made up reads and removes nothing outside, and nothing at all."""
    store.save(of("a"))
    outside = tmp_path / "home" / "context-bridge" / "x.json"
    outside.write_text(json.dumps(of("outside")), encoding="utf-8")
    for given_ in (name, f"../{name}", "../x", str(outside), str(outside.with_suffix(""))):
        assert 0 == store.clear(given_)
        with pytest.raises(UnknownSnapshotError):
            store.load(given_)
    assert outside.exists()
    assert ["a"] == sessions(store)


# -- profiles (N15) ---------------------------------------------------------------------------------------------------


def test_n15_profiles_never_mix(tmp_path: Path) -> None:
    """N15: profiles that share a folder list, load, keep and remove their own only."""
    names = ["default", "fin", "Fin", "\ud800", "\ud801", "", "x" * 300, "x" * 299 + "y"]
    stores = [SnapshotStore(tmp_path, name, keep=2) for name in names]
    for number, one in enumerate(stores):
        for at in range(3):
            one.save(of(f"s{number}", at))
    for number, one in enumerate(stores):
        assert [f"s{number}"] * 2 == sessions(one)
    mine = stores[1].list()[0].id
    assert 0 == stores[0].clear(mine)
    with pytest.raises(UnknownSnapshotError):
        stores[0].load(mine)
    assert 2 == stores[0].clear()
    assert [0, *[2] * 7] == [len(one.list()) for one in stores]


def test_n15_somebody_elses_is_not_saved(tmp_path: Path) -> None:
    """A snapshot that names another profile is refused, and nothing is written."""
    with pytest.raises(ValueError, match="of profile 'fin', and the store is that of 'default'"):
        SnapshotStore(tmp_path / "s").save(of("a", profile="fin"))
    assert not (tmp_path / "s").exists()
    assert "fin" in repr(SnapshotStore(tmp_path, "fin"))


def test_files_of_the_plugin_before_are_whose_they_say(tmp_path: Path) -> None:
    """Files with names of another making belong to the profile in them, and are kept and removed like ours."""
    for profile, name in (("fin", "fin_s_20250301T120000.json"), ("default", "default_s_20250301T120000.json")):
        text = json.dumps({**of("s"), "profile": profile, "tool_calls": [], "key_findings": [], "version": "1.0.0"})
        (tmp_path / name).write_text(text, encoding="utf-8")
    fin = SnapshotStore(tmp_path, "fin", keep=1)
    assert ["fin_s_20250301T120000"] == [entry.id for entry in fin.list()]
    assert "s" == fin.load("fin_s_20250301T120000").session_id
    fin.save(of("new", 5))
    assert ["new"] == sessions(fin)
    assert ["s"] == sessions(SnapshotStore(tmp_path))


def test_a_file_in_anothers_name_is_corrupt(tmp_path: Path) -> None:
    """A file that is named as ours and says that it is another's is neither's to restore."""
    path = SnapshotStore(tmp_path, "fin").save(of("a"))
    path.write_text(path.read_text(encoding="utf-8").replace('"fin"', '"default"'), encoding="utf-8")
    (entry,) = SnapshotStore(tmp_path, "fin").list()
    assert entry.corrupt
    assert "of profile 'default'" in entry.problem
    assert [] == SnapshotStore(tmp_path).list()


# -- what is no snapshot (N08) ----------------------------------------------------------------------------------------


def test_n08_bad_files_among_good_ones(store: SnapshotStore, tmp_path: Path) -> None:
    """N08: empty, cut off, binary, a folder, a link, a pipe, too large: marked, never restored, never in the way."""
    good = store.save(of("good"))
    outside = tmp_path / "outside.json"
    outside.write_bytes(good.read_bytes())
    bad = {
        name: store.directory / f"{name}.json"
        for name in ("empty", "cut", "binary", "other", "large", "folder", "link", "pipe", "dangling")
    }
    bad["empty"].write_bytes(b"")
    bad["cut"].write_bytes(good.read_bytes()[:100])
    bad["binary"].write_bytes(bytes(range(256)))
    bad["other"].write_text("[" * 100_000, encoding="utf-8")
    bad["large"].write_text(" " * 1_100_000, encoding="utf-8")
    bad["folder"].mkdir()
    (bad["folder"] / "inside").touch()
    bad["link"].symlink_to(outside)
    bad["dangling"].symlink_to(tmp_path / "nobody")
    os.mkfifo(bad["pipe"])
    entries = store.list()
    assert "good" == entries[0].session_id
    assert set(bad) == {entry.id for entry in entries[1:] if entry.corrupt}
    assert all("[CORRUPT]" in line_of(entry, 1) for entry in entries[1:])
    for name in bad:
        with pytest.raises(CorruptSnapshotError, match="cannot be restored"):
            store.load(name)
    assert entries[0] == resumable(entries)
    for at in range(12):
        store.save(of(f"new{at}", at + 1))
    assert 10 == sum(not entry.corrupt for entry in store.list())
    assert 1 == store.clear("link")
    assert outside.exists()
    assert 17 == store.clear()
    assert ["folder"] == [entry.id for entry in store.list()]
    assert (bad["folder"] / "inside").exists()


def test_n08_unreadable(store: SnapshotStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """N08: a file without rights to read it is listed as corrupt, with the reason."""
    store.save(of("good"))
    bad = store.directory / "locked.json"
    bad.touch()
    opened = os.open

    def refuse(path: Any, *args: Any, **more: Any) -> int:
        if str(path).endswith("locked.json"):  # whoever runs tests as root may read everything
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *args, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert "Permission denied" in store.list()[1].problem
    assert ["good", ""] == sessions(store)


@given(st.binary(max_size=400) | st.text().map(lambda text: json.dumps(of(text)).encode()[:120]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_in_place_of_a_snapshot(store: SnapshotStore, data: bytes) -> None:
    """Whatever stands in a file, it is listed, loading it is a snapshot or a clear error, and saving goes on."""
    path = store.save(of("a"))
    path.write_bytes(data)
    (entry,) = store.list()
    assert entry.corrupt
    with pytest.raises(CorruptSnapshotError):
        store.load(entry.id)
    assert path == store.save(of("a"))
    assert "a" == store.load(entry.id).session_id


def test_what_a_later_release_wrote(store: SnapshotStore) -> None:
    """It is reported, not restored, not counted, and not removed for others."""
    path = store.save(of("later", -100))
    path.write_text(path.read_text(encoding="utf-8").replace('"1.0.0"', '"2.0.0"'), encoding="utf-8")
    for at in range(11):
        store.save(of(f"s{at}", at))
    newer = store.list()[-1]
    assert (False, "later") == (newer.corrupt, newer.session_id)
    assert "2.0.0" in line_of(newer, 11)
    assert "[NEWER]" in line_of(newer, 11)
    with pytest.raises(NewerSnapshotError, match="upgrade"):
        store.load(newer.id)
    assert 11 == len(store.list())


# -- writing (N10, N11, N12) ------------------------------------------------------------------------------------------


def test_n10_leftovers_are_swept(store: SnapshotStore) -> None:
    """N10: what killed writers have left, file or folder, stops no save and is gone after the next one."""
    path = store.save(of("a"))
    path.with_name(f"{path.name}.tmp").write_text("left", encoding="utf-8")
    path.with_name(f"{path.stem}.0123456789abcdef.tmp").touch()
    path.with_suffix(".tmp").mkdir()
    full = path.with_name("full.tmp")
    full.mkdir()
    (full / "inside").touch()
    assert ["a"] == sessions(store)
    store.save(of("a"))
    assert {path.name, ".lock", "full.tmp"} == {one.name for one in store.directory.iterdir()}
    store.save(of("ends.tmp", 1))
    assert ["ends.tmp", "a"] == sessions(store)


@pytest.mark.parametrize("umask", [0o022, 0o000, 0o077])
def test_n11_only_the_owner_can_look(tmp_path: Path, umask: int) -> None:
    """N11: files are 0600 in folders that are 0700, whatever the umask, and a folder that was open is closed."""
    before = os.umask(umask)
    try:
        store = SnapshotStore(tmp_path / "home" / "context-bridge" / "snapshots")
        path = store.save(of("a"))
        opened = SnapshotStore(tmp_path / "open")
        opened.directory.mkdir(mode=0o755)
        opened.save(of("a"))
    finally:
        os.umask(before)
    for folder in (store.directory, store.directory.parent, opened.directory):
        assert 0o700 == stat.S_IMODE(folder.stat().st_mode)
    for file in (path, store.directory / ".lock"):
        assert 0o600 == stat.S_IMODE(file.stat().st_mode)


def test_n11_links_are_not_followed(store: SnapshotStore, tmp_path: Path) -> None:
    """N11: a link in the place of a file is replaced; one in the place of the folder or of the lock is not gone through."""
    path = store.save(of("a"))
    precious = tmp_path / "precious"
    precious.write_text("precious", encoding="utf-8")
    path.unlink()
    path.symlink_to(precious)
    assert store.save(of("a")) == path
    assert not path.is_symlink()
    lock = store.directory / ".lock"
    lock.unlink(missing_ok=True)
    lock.symlink_to(tmp_path / "made")
    store.save(of("b"))
    assert not (tmp_path / "made").exists()
    assert not lock.is_symlink()
    assert "precious" == precious.read_text(encoding="utf-8")
    there = tmp_path / "there"
    there.mkdir()
    linked = SnapshotStore(tmp_path / "linked")
    linked.directory.symlink_to(there)
    between = SnapshotStore(tmp_path / "other" / FOLDER)
    between.directory.parent.parent.mkdir()
    between.directory.parent.symlink_to(there.parent)
    SnapshotStore(there).save(of("beyond"))
    for trap in (linked, between):
        for use in (lambda trap=trap: trap.save(of("a")), trap.list, lambda trap=trap: trap.load("x"), trap.clear):
            with pytest.raises(SnapshotError, match="is a link, which snapshots do not follow; remove it"):
                use()
    assert ["beyond"] == sessions(SnapshotStore(there))


@pytest.mark.parametrize("call", ["write", "fsync", "open", "replace", "mkdir"])
def test_n12_the_last_good_one_stays(store: SnapshotStore, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """N12: whatever fails, a full disk first, the error says why, nothing is left over, and what was there stays."""
    fresh = SnapshotStore(store.directory.with_name("fresh"))
    target = fresh if call == "mkdir" else store
    store.save(of("good"))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    where = Path if call in {"replace", "mkdir"} else os
    real = getattr(where, call)

    def fail(*args: Any, **more: Any) -> Any:
        if call == "open" and not (args[1] & os.O_EXCL and str(args[0]).endswith(".tmp")):
            return real(*args, **more)
        raise full

    with monkeypatch.context() as patched:
        patched.setattr(where, call, fail)
        with pytest.raises(OSError, match="No space left"):
            target.save(of("bad", 1))
    assert ["good"] == sessions(store)
    assert {".lock"} == {path.name for path in store.directory.iterdir() if path.suffix != ".json"}
    target.save(of("next", 2))
    assert "next" == sessions(target)[0]


def test_n07_synced_before_it_has_its_name(store: SnapshotStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """N07: what is written is synced before it is renamed, and the folder after that; so both outlast a power failure."""
    done: list[str] = []
    sync, replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        done.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        sync(descriptor)

    def renamed(self: Path, target: Path) -> Path:
        done.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", renamed)
    store.save(of("a"))
    assert ["sync file", "rename", "sync folder"] == done


def test_n12_something_in_the_way(tmp_path: Path) -> None:
    """N12: a file where the folder should be: a clear error; once it is gone the next save works."""
    store = SnapshotStore(tmp_path / "home" / "snapshots")
    store.directory.parent.mkdir()
    store.directory.touch()
    with pytest.raises(NotADirectoryError, match="is no folder; remove it"):
        store.save(of("a"))
    store.directory.unlink()
    store.save(of("a"))
    assert ["a"] == sessions(store)


def test_without_the_library_for_locks(store: SnapshotStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saving says what to install; what is there can be listed and loaded all the same."""
    store.save(of("a"))
    monkeypatch.setitem(sys.modules, "filelock", None)
    with pytest.raises(SnapshotError, match="pip install"):
        store.save(of("b"))
    assert "a" == store.load(store.list()[0].id).session_id


def test_a_lock_that_nobody_gives_back(store: SnapshotStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits too long for others says so, and has changed nothing."""
    import filelock

    store.save(of("a"))
    monkeypatch.setattr("engines.snapshotter.store._PATIENCE", 0.05)
    with filelock.FileLock(store.directory / ".lock"), pytest.raises(SnapshotError, match="have held the lock"):
        SnapshotStore(store.directory).save(of("b"))
    assert ["a"] == sessions(store)


# -- which one is meant -----------------------------------------------------------------------------------------------


def test_which_one_is_meant(store: SnapshotStore) -> None:
    """A number of the list, an id, or the beginning of one that is only one's; else an error that says what can be given."""
    for n in range(3):
        store.save(made(n))
    entries = store.list()
    for number, entry in enumerate(entries, 1):
        assert entry == chosen(entries, str(number))
        assert entry == chosen(entries, entry.id)
        assert entry == chosen(entries, f" {entry.id[:8]} ")
    for wanted in ("", "0", "4", "zz", "99999999999999", "²", "../1"):
        with pytest.raises(UnknownSnapshotError, match="number from 1 to 3"):
            chosen(entries, wanted)
    with pytest.raises(UnknownSnapshotError, match="there are no snapshots"):
        chosen([], "1")
    twice = [entries[0], entries[0].__class__(entries[0].id[:4] + "zzzz", "", "", "", entries[0].path)]
    with pytest.raises(UnknownSnapshotError, match="give more of it"):
        chosen(twice, entries[0].id[:3])


def test_a_number_that_is_not_on_the_list_means_no_other_snapshot(store: SnapshotStore) -> None:
    """Digits are a list number: a miscounted one begins nobody's id; six that do are an id's, and the list comes first."""
    store.save(made(0))
    (one,) = store.list()
    named_so = [evolve(one, id=id_) for id_ in ("912345abcdef-x", "2aaaaaaaaaaa-x", "123456789012-x")]
    assert named_so[1] == chosen(named_so, "2")
    assert named_so[0] == chosen(named_so, "1")
    assert named_so[0] == chosen(named_so, "912345")
    assert named_so[2] == chosen(named_so, "123456789012")
    assert named_so[2] == chosen(named_so, "1234567890")
    assert named_so[1] == chosen(named_so, "2aaa")
    for wanted in ("9", "91", "9123", "91234", "12345", "0", "00", "654321", "-1"):
        with pytest.raises(UnknownSnapshotError, match="a number from 1 to 3"):
            chosen(named_so, wanted)


@given(
    st.lists(st.text("0123456789ab", min_size=12, max_size=12), min_size=1, max_size=12, unique=True),
    st.integers(0, 99_999),
)
def test_a_short_number_is_its_place_or_nothing(ids: list[str], number: int) -> None:
    """Whatever the ids are, fewer than six digits mean that place of the list, or an error that names its range."""
    entries = [Entry(id_, "s", "compaction", "", Path(id_)) for id_ in ids]
    if 1 <= number <= len(entries):
        assert entries[number - 1] == chosen(entries, str(number))
    else:
        with pytest.raises(UnknownSnapshotError, match=f"from 1 to {len(entries)} "):
            chosen(entries, str(number))


def test_n13_children_are_not_their_parents(store: SnapshotStore) -> None:
    """N13: a parent and its child that end at once are two snapshots, and the one that is meant is the parent's."""
    store.save(of("s1", lineage={"conversation": "a:1"}))
    store.save(of("s1", lineage={"conversation": "a:2", "parent": "s1"}))
    assert 2 == len(store.list())
    entries = store.list()
    newest = resumable(entries)
    assert newest is not None
    assert "" == newest.parent
    child = next(entry for entry in entries if entry.parent)
    assert "delegated by s1" in line_of(child, 1)
    assert child == resumable([child])
    assert resumable([]) is None
