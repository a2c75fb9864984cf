"""Matrix programs on Spark: large matrices in blocks of rows on the executors, thin factors at the driver.

    from viewlet.spark.matrices import SparkMatrices

    matrices = SparkMatrices(spark, checkpoint="/data/powers")
    run = program.start(A=a, backend=matrices)

| module        | what it holds                                                                                    |
|---------------|--------------------------------------------------------------------------------------------------|
| `history`     | a matrix as a base in files and the changes since, and how its rows are divided                  |
| `change`      | a change of a matrix, as a record of the log and as work on a block                              |
| `block_files` | blocks in the checkpoint directory, for every machine                                            |
| `block_state` | a block in the version that a task needs, in mapped files of one machine                         |
| `recipes`     | whole matrices from others: products, sums, transposes, stacks, block by block                   |
| `tasks`       | what runs on executors: a pass over a block, writing it to a file, making one by a recipe        |
| `blocks`      | a matrix as the driver sees it                                                                   |
| `backend`     | the back end that a run of a matrix program computes with                                        |

The log of a matrix is its factors: a change is written to the log before any executor applies it. A block whose machine
or process is lost is rebuilt from the base and the log, by any other.
"""

from viewlet.spark.run.java import require_spark

require_spark()

from viewlet.spark.matrices.backend import SparkMatrices, Traffic  # noqa: E402 - without the extra it cannot be imported

__all__ = ["SparkMatrices", "Traffic"]
