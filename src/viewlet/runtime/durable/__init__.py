"""State that outlives the process: a directory with a lock, snapshots, logs of changes and one manifest per commit.

    LOCK                        who has the directory open
    manifest-000000000042.json  what is committed: the epoch, the snapshot, and how many bytes of which logs
    snapshot-000000000040/      named arrays, Arrow tables and a little JSON
    log-000000000041.bin        what was put in since the snapshot, one record per commit

A commit appends to the log and syncs it, then puts a new manifest into place. Whatever a crash leaves behind that no
manifest mentions does not count, and is removed when the directory is opened next.
"""
