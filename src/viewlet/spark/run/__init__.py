"""Distributed programs on Spark: state in partitions, batches as jobs, everything else in a checkpoint directory.

| module       | where it runs       | what it does                                                          |
|--------------|---------------------|-----------------------------------------------------------------------|
| `java`       | driver              | finds a Java for sessions that are started here                       |
| `merge`      | driver              | the plans of several views as one                                     |
| `code`       | driver              | a plan as what workers need of it                                     |
| `kernel`     | both                | runs statements on the state of one place                             |
| `wire`       | both                | contents of views and temporaries as bytes                            |
| `steps`      | both                | the inputs of one stage as a record of the log                        |
| `partition`  | executors           | finds the state of a partition in the version it should be in         |
| `tasks`      | executors           | what a task does: run a block, map a frame, write a snapshot, read    |
| `cluster`    | driver              | runs tasks, on Spark or in this process                               |
| `checkpoint` | driver              | log, manifest and snapshots; the history that workers can go back to  |
| `batch`      | driver              | one batch, block by block                                             |
| `engine`     | driver              | views, batches, results                                               |
"""
