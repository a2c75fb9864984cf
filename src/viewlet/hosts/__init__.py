"""Hosts: where the views of a database run, in this process or on a cluster, and how their state outlives it.

| module      | what it holds                                                                               |
|-------------|---------------------------------------------------------------------------------------------|
| `catalogue` | the tables and views of a database by name, and who reads whom                              |
| `contract`  | what a database asks of a host, and its journal of a log                                    |
| `local`     | views in this process, each with an engine of its own                                       |
| `snapshot`  | their state in a snapshot                                                                   |
| `spark`     | views spread over a cluster, which runs their batches together                              |
| `feeds`     | the changes of views on a cluster as files                                                  |
| `progress`  | how far a job of the cluster is                                                             |
| `earlier`   | what earlier versions wrote                                                                 |
"""
