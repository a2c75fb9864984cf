"""The executor that a partition prefers, because it has the partition's state.

    payloads of a stage ──┐
                          ├─ zip ──► tasks, each offered to its executor first
    preferred locations ──┘

PySpark has no preferred locations, so the second data set is made in the JVM (`SparkContext.makeRDD` with locations
such as `executor_10.0.0.7_3`). Where these classes are missing, tasks run where Spark likes. An executor that is busy
for longer than `spark.locality.wait` loses its tasks to others, and one that is gone has none: the state is rebuilt
from the checkpoint directory then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from viewlet.visible import logger


def assign(homes: Mapping[int, str], partitions: Iterable[int], executors: Sequence[str]) -> dict[int, str]:
    """An executor for each partition; a partition keeps its own unless that is gone, or has more than its fair share.

    >>> assign({0: "a", 1: "gone", 2: "a", 3: "b"}, range(4), ["a", "b"])
    {0: 'a', 2: 'a', 3: 'b', 1: 'b'}
    """
    wanted = list(partitions)
    fair, larger = divmod(len(wanted), len(executors))
    loads = dict.fromkeys(executors, 0)
    found: dict[int, str] = {}
    for partition in wanted:
        home = homes.get(partition)
        if home is None or home not in loads:
            continue
        has_more = loads[home] == fair
        if loads[home] < fair or (has_more and larger):
            larger -= has_more
            loads[home] += 1
            found[partition] = home
    for partition in wanted:
        if partition not in found:
            home = min(executors, key=lambda name: loads[name])
            loads[home] += 1
            found[partition] = home
    return found


class Locality:
    """Which executor has which partition of the state, on one Spark context."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._is_on = not context._jsc.sc().isLocal()
        self._ids = ""
        self._executors: dict[str, str] = {}
        """The location of every executor."""
        self._homes: dict[int, str] = {}
        self._preferences: dict[tuple[int, ...], Any] = {}

    def preferences(self, partitions: Sequence[int]) -> Any:
        """A data set with one element per partition, which prefers its executor; None if it does not matter."""
        if not self._is_on:
            return None
        try:
            self._look()
            if len(self._executors) < 2:
                return None
            wanted = tuple(partitions)
            if wanted not in self._preferences:
                self._preferences[wanted] = self._located([self._home(partition) for partition in wanted])
            return self._preferences[wanted]
        except Exception as error:  # classes of Spark's own that another version may not have
            self._is_on = False
            logger.info("partitions have no preferred executors: %s", str(error).splitlines()[0][:200])
            return None

    def _look(self) -> None:
        """Finds out which executors there are, if they are others than before."""
        ids = str(self._context._jsc.sc().getExecutorIds().mkString(","))
        if ids == self._ids:
            return
        alive = set(ids.split(","))
        found = {name: location for name, location in self._known() if name in alive}
        self._preferences.clear()
        self._executors = dict(sorted(found.items()))
        if self._executors:
            self._homes = assign(self._homes, sorted(self._homes), list(self._executors))
        if found.keys() == alive:
            self._ids = ids

    def _known(self) -> Iterable[tuple[str, str]]:
        each = self._context._jsc.sc().statusStore().executorList(True).iterator()
        while each.hasNext():
            executor = each.next()
            host = executor.hostPort().rpartition(":")[0]
            yield executor.id(), f"executor_{host}_{executor.id()}"

    def _home(self, partition: int) -> str:
        if partition not in self._homes:
            self._homes = assign(self._homes, sorted({*self._homes, *range(partition + 1)}), list(self._executors))
        return self._executors[self._homes[partition]]

    def _located(self, locations: Sequence[str]) -> Any:
        from pyspark.core.rdd import RDD
        from pyspark.serializers import CPickleSerializer

        serializer: Any = CPickleSerializer()
        jvm = self._context._jvm
        elements = jvm.java.util.ArrayList()
        for location in locations:
            one = jvm.java.util.ArrayList()
            one.add(location)
            elements.add(jvm.scala.Tuple2(bytearray(serializer.dumps(None)), jvm.PythonUtils.toSeq(one)))
        kind = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
        made = self._context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq(elements), kind).toJavaRDD()
        return RDD(made, self._context, serializer)
