"""Distributed programs on Spark: state in partitions, batches as jobs, everything else in a checkpoint directory.

| package     | what it holds                                                                                          |
|-------------|--------------------------------------------------------------------------------------------------------|
| `exchange`  | what travels between the driver and the tasks: contents as bytes, the inputs of a stage, errors        |
| `units`     | what a view is on a cluster: its plans, its code, and the nodes that run it in one place               |
| `state`     | the nodes of a partition in the version that a task needs; log, manifest and snapshots                 |
| `load`      | data frames as sources, and initial loads by Spark SQL                                                 |
| `execution` | one batch, block by block; what tasks do; the cluster that runs them, which is Spark or this process   |
| `engine`    | at the driver: runs batches; before it `unit_registry`, `result_reader` and `snapshots`, its parts     |
| `views`     | units as the engines of views: how results are read                                                    |

A package imports only those above it. Below them, `java` finds a Java for sessions that are started here, and
`worker_daemon` is the process that forks Spark's Python workers.
"""
