"""Hermes on the dataspace: one lasting context engine in front of any number of engines.

The host holds one `ContextEngine` per agent and calls it on its own threads.  Here each of those is a thin object with a
*seat* behind it:

    host ──▶ adapter ──▶ seat ──▶ cell (the loop's `step`, on the calling thread) ──▶ desk (facts, in the daemon thread)
                          └─────▶ hosted engine (the built-in compressor by default), in charge or not

`plugin` what the host loads · `adapter`, `fields` the host's side: methods, attributes · `hooks`, `turns` what the host
tells beside, and whose it is · `seat` one agent, made up of `place` (engines, attributes, conversation), `lifecycle`
(sessions), `live` (settings and engines that change), `feed` (turns, tools, children), `verdicts` (the cheap calls) and
`calls` (compress) · `own`, `plateau` budget and meter · `cell` one conversation's state · `desk`, `plugs`, `runtime` the
dataspace's side · `command`, `shown` what a user asks of it · `hosted` a context engine
written for the host, run as an engine here · `forward` its cheap calls, `bounded` such as have to come back in time ·
`builtin`, `third` where those come from · `guard` what becomes of an answer, `shape` rows that the host cannot read ·
`strange` messages that are no JSON · `hidden` keys that nobody reads · `wording` summaries in the host's words ·
`settings`, `blocks` the block in the host's config · `host` all that is taken from the host.

What is added to, without touching the rest:

    `observers`   the table of what runs beside the compressors: for each its settings, its engine, its aide
    `crew`        runs those engines, one each for all conversations of the process
    `aides`       what answers the host at once, for one conversation, on the host's threads

Importing this, and registering it, loads no event loop and starts nothing.
"""

__all__: list[str] = []
