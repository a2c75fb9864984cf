"""State that outlives the process: a directory with a lock, snapshots, logs of changes and one manifest per commit.

    LOCK                        which process has the directory open
    manifest-000000000042.json  what is committed: the epoch, the snapshot, and how many bytes of which logs
    snapshot-000000000040/      named arrays, Arrow tables and a little JSON
    log-000000000041.bin        the changes since the snapshot, one record per commit

A commit appends to the log, syncs it, and then puts a new manifest into place. Files that a crash left behind and that
no manifest mentions are ignored, and removed when the directory is opened next.
"""
