from parcels.cli import main

raise SystemExit(main())
