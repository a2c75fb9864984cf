"""`dbt build` of a shop of 34 models: in full, after some rows of the seeds have changed, and in full with those.

    make dbt-test                                                       (once: makes the environment)
    dbt-viewlet/.venv/bin/python -m bench.dbt_build --rows 1000000

All relations of the build with changed seeds have to equal those of the build from nothing: the current versions of
snapshots, and all rows of seeds, models and stored test failures. A build is a process, with the start of dbt and the
opening and closing of the directory.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

import viewlet

STAGING = {
    "customers": "select id as customer, name, city, segment, cast(updated_at as timestamp) as updated_at from {seed}",
    "products": "select id as product, name, category, price, cast(updated_at as timestamp) as updated_at from {seed}",
    "stores": "select id as store, city, region from {seed}",
    "orders": "select id as order_id, customer, store, ordered_on, status from {seed}",
    "lines": "select id as line, order_id, product, quantity, amount, discount from {seed}",
    "payments": "select id as payment, order_id, method, paid from {seed}",
}
SNAPSHOTS = {"customer_history": ("customers", "customer"), "product_history": ("products", "product")}
FACTS = {
    "dim_customers": "select customer, name, city, segment from {customer_history} where dbt_valid_to is null",
    "dim_products": "select product, name, category, price from {product_history} where dbt_valid_to is null",
    "fct_lines": """
        select l.line, l.order_id, o.customer, o.store, o.ordered_on, o.status, l.product, p.category, l.quantity,
               l.amount, l.amount - l.discount as net
        from {stg_lines} l join {stg_orders} o on o.order_id = l.order_id
             join {dim_products} p on p.product = l.product""",
    "fct_orders": """
        select order_id, customer, store, ordered_on, status, sum(net) as net, sum(quantity) as pieces,
               count(*) as lines
        from {fct_lines} group by order_id, customer, store, ordered_on, status""",
    "fct_payments": "select order_id, sum(paid) as paid, count(*) as payments from {stg_payments} group by order_id",
    "open_orders": """
        select o.order_id, o.customer, o.net, coalesce(p.paid, 0) as paid
        from {fct_orders} o left join {fct_payments} p on p.order_id = o.order_id where o.net > coalesce(p.paid, 0)""",
}
_SUMS = "sum(net) as net, count(*) as lines, sum(quantity) as pieces"
MARTS = {
    "sales_by_day": f"select ordered_on, {_SUMS} from {{fct_lines}} group by ordered_on",
    "sales_by_month": f"select date_trunc('month', ordered_on) as month, {_SUMS} from {{fct_lines}} group by 1",
    "sales_by_category": f"select category, {_SUMS} from {{fct_lines}} group by category",
    "sales_by_product": f"select product, {_SUMS} from {{fct_lines}} group by product",
    "sales_by_store": f"select store, {_SUMS} from {{fct_lines}} group by store",
    "sales_by_status": f"select status, {_SUMS} from {{fct_lines}} group by status",
    "sales_by_region": """
        select s.region, sum(l.net) as net, count(*) as lines
        from {fct_lines} l join {stg_stores} s on s.store = l.store group by s.region""",
    "sales_by_segment": """
        select c.segment, l.category, sum(l.net) as net, count(*) as lines
        from {fct_lines} l join {dim_customers} c on c.customer = l.customer group by c.segment, l.category""",
    "sales_by_city": """
        select c.city, sum(o.net) as net, count(*) as orders
        from {fct_orders} o join {dim_customers} c on c.customer = o.customer group by c.city""",
    "category_days": f"select category, ordered_on, {_SUMS} from {{fct_lines}} group by category, ordered_on",
    "store_months": f"select store, date_trunc('month', ordered_on) as month, {_SUMS} from {{fct_lines}} group by 1, 2",
    "customer_value": """
        select customer, sum(net) as net, count(*) as orders, min(ordered_on) as first_order,
               max(ordered_on) as last_order
        from {fct_orders} group by customer""",
    "customer_bands": """
        select case when net >= 1000 then 'high' when net >= 100 then 'middle' else 'low' end as band,
               count(*) as customers, sum(net) as net
        from {customer_value} group by 1""",
    "loyal_customers": "select customer, orders, net from {customer_value} where orders >= 10",
    "segment_value": """
        select c.segment, count(*) as customers, sum(v.net) as net
        from {customer_value} v join {dim_customers} c on c.customer = v.customer group by c.segment""",
    "order_sizes": "select lines, count(*) as orders, sum(net) as net from {fct_orders} group by lines",
    "large_orders": "select order_id, customer, net from {fct_orders} where net > 900",
    "debt_by_customer": """
        select customer, sum(net - paid) as debt, count(*) as orders from {open_orders} group by customer""",
    "debt_by_city": """
        select c.city, sum(o.net - o.paid) as debt
        from {open_orders} o join {dim_customers} c on c.customer = o.customer group by c.city""",
    "payment_methods": "select method, sum(paid) as paid, count(*) as payments from {stg_payments} group by method",
    "idle_products": "select product, name from {dim_products} where product not in (select product from {fct_lines})",
    "totals": "select sum(net) as net, sum(pieces) as pieces, count(*) as orders from {fct_orders}",
}
KEYS = {
    "stg_customers": "customer",
    "stg_products": "product",
    "stg_stores": "store",
    "stg_orders": "order_id",
    "stg_lines": "line",
    "stg_payments": "payment",
    "fct_lines": "line",
    "fct_orders": "order_id",
    "customer_value": "customer",
    "sales_by_day": "ordered_on",
}
"""What the tests say of models: a column that is unique and not NULL."""
TYPES = {"products": ["price"], "lines": ["amount", "discount"], "payments": ["paid"]}

SEEDS = {
    "customers": "i as id, 'customer ' || i as name, 'city ' || i % 97 as city, 'segment ' || i % 5 as segment,"
    " '2024-01-01 00:00:00' as updated_at",
    "products": "i as id, 'product ' || i as name, 'category ' || i % 20 as category, i % 90 + 0.99 as price,"
    " '2024-01-01 00:00:00' as updated_at",
    "stores": "i as id, 'city ' || i % 97 as city, 'region ' || i % 7 as region",
    "orders": "i as id, i * 7919 % {customers} as customer, i % {stores} as store,"
    " date '2024-01-01' + cast(i % 365 as integer) as ordered_on, ['open', 'sent', 'done'][i % 3 + 1] as status",
    "lines": "i as id, i % {orders} as order_id, i * 104729 % {products} as product, i % 9 + 1 as quantity,"
    " cast(i * 31 % 50000 / 100 as decimal(12,2)) as amount, cast(i % 50 / 100 as decimal(12,2)) as discount",
    "payments": "i as id, i * 3 % {orders} as order_id, ['card', 'cash', 'bank'][i % 3 + 1] as method,"
    " cast(i * 17 % 60000 / 100 as decimal(12,2)) as paid",
}


def sizes(rows: int) -> dict[str, int]:
    """How many rows each seed has, `rows` in all."""
    shares = {"customers": 0.04, "orders": 0.26, "lines": 0.56, "payments": 0.13}
    found = {
        "products": max(rows // 200, 10),
        "stores": 50,
        **{name: int(rows * part) for name, part in shares.items()},
    }
    return {name: found[name] for name in SEEDS}


def write_seeds(folder: Path, rows: int, changed: int) -> None:
    """The seeds; with `changed` rows of them deleted, inserted and updated, a third each."""
    counts = sizes(rows)
    third = changed // 3
    folder.mkdir(exist_ok=True)
    with duckdb.connect() as connection:
        for name, columns in SEEDS.items():
            count = counts[name]
            connection.execute(
                f"create or replace table t as select {columns.format(**counts)} from range({count}) r(i)"
            )
            if name in ("lines", "payments") and changed:
                share = third if name == "lines" else third // 4
                connection.execute(f"delete from t where id < {share}")
                connection.execute(f"insert into t select * replace ({count} + id as id) from t limit {share}")
                column = "amount" if name == "lines" else "paid"
                connection.execute(f"update t set {column} = {column} + 1 where id between {2 * share} and {3 * share}")
            if name in ("customers", "products") and changed:
                extra = "city = 'city 1'" if name == "customers" else "price = price + 1"
                few = min(third // 10, count // 10)
                connection.execute(f"update t set {extra}, updated_at = '2024-06-01 00:00:00' where id < {few}")
            connection.execute(f"copy t to '{folder / name}.csv' (header)")


def write_project(folder: Path, state: Path, options: dict[str, Any]) -> None:
    """The project, and a profile for a directory."""
    models, snapshots = folder / "models", folder / "snapshots"
    for each in (models, snapshots):
        each.mkdir(parents=True, exist_ok=True)
    names = [*(f"stg_{name}" for name in STAGING), *SNAPSHOTS, *FACTS, *MARTS]
    refs = {name: f"{{{{ ref('{name}') }}}}" for name in names}
    for name, sql in STAGING.items():
        (models / f"stg_{name}.sql").write_text(sql.format(seed=f"{{{{ ref('{name}') }}}}"))
    for name, sql in {**FACTS, **MARTS}.items():
        (models / f"{name}.sql").write_text(sql.format(**refs))
    for name, (source, key) in SNAPSHOTS.items():
        config = f"config(unique_key='{key}', strategy='timestamp', updated_at='updated_at', schema='history')"
        query = f"select * from {{{{ ref('stg_{source}') }}}}"
        text = f"{{% snapshot {name} %}}{{{{ {config} }}}}\n{query}\n{{% endsnapshot %}}\n"
        (snapshots / f"{name}.sql").write_text(text)
    tests = [
        {"name": name, "columns": [{"name": key, "data_tests": ["unique", "not_null"]}]} for name, key in KEYS.items()
    ]
    types = {name: {"+column_types": dict.fromkeys(columns, "decimal(12,2)")} for name, columns in TYPES.items()}
    settings = {
        "name": "shop",
        "profile": "shop",
        "flags": {"send_anonymous_usage_stats": False},
        "models": {"+materialized": "view"},
        "seeds": {"shop": types},
        "data_tests": {"+store_failures": True, "+store_failures_as": "view"},
    }
    output = {"type": "viewlet", "path": str(state), "schema": "main", "threads": 1, **options}
    files = {
        models / "tests.yml": {"models": tests},
        folder / "dbt_project.yml": settings,
        folder / "profiles.yml": {"shop": {"target": "dev", "outputs": {"dev": output}}},
    }
    for path, content in files.items():
        path.write_text(json.dumps(content))  # which is YAML


def build(project: Path, runner: Any = None) -> float:
    """The seconds of a `dbt build`; prints those of the processor too, which do not depend on what else is running."""
    arguments = ["build", "--project-dir", str(project), "--profiles-dir", str(project)]
    start, before = time.perf_counter(), os.times()
    if runner is not None:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            succeeds = runner.invoke(arguments).success
        text = output.getvalue()
    else:
        command = [sys.executable, "-c", "from dbt.cli.main import cli; cli()", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        succeeds, text = done.returncode == 0, done.stdout
    seconds, busy = time.perf_counter() - start, sum(os.times()[:4]) - sum(before[:4])
    if not succeeds:
        raise SystemExit(text[-4000:])
    summary = next(line for line in text.splitlines() if "PASS=" in line)
    print(f"    {summary[summary.index('PASS=') :]}   {seconds:.1f} s, of the processor {busy:.1f} s", flush=True)
    return seconds


def differences(first: Path, second: Path) -> list[str]:
    """The relations in which two directories differ; of snapshots only current versions are compared."""
    unequal: list[str] = []
    with viewlet.connect(first) as a, viewlet.connect(second) as b, duckdb.connect() as connection:
        if {*a.tables, *a.views} != {*b.tables, *b.views}:
            unequal.append("names of relations")
        for name in (*a.tables, *a.views):
            current = "where dbt_valid_to is null" if name.startswith("history__") else ""
            for side, database in (("old", a), ("new", b)):
                connection.register(side, database.execute(f'select * from "{name}" {current}'))
            apart = "((from old except all from new) union all (from new except all from old))"
            if connection.execute(f"select count(*) from {apart}").fetchall() != [(0,)]:
                unequal.append(name)
        print(f"    {len(a.tables)} tables and {len(a.views)} views compared; not equal: {unequal or 'none'}")
    return unequal


def close_databases() -> None:
    """Ends what `keep_open` has left open in this process."""
    from dbt.adapters.viewlet import ViewletConnectionManager

    ViewletConnectionManager.close_databases()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of all seeds")
    parser.add_argument("--changed", type=int, default=600, help="rows of the seeds that change")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--one-process", action="store_true", help="dbtRunner, and a database that stays open")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="dbt-build-"))
    runner = None
    if options.one_process:
        from dbt.cli.main import dbtRunner

        runner = dbtRunner()
    try:
        project = folder / "shop"
        settings = {"engine": options.engine, "keep_open": options.one_process}
        write_project(project, folder / "state", settings)
        write_seeds(project / "seeds", options.rows, 0)
        models = len(STAGING) + len(FACTS) + len(MARTS)
        print(f"{options.rows} rows, {models} models, {len(SNAPSHOTS)} snapshots, {2 * len(KEYS)} tests")
        print("first build")
        build(project, runner)
        print("build without changes")
        build(project, runner)
        write_seeds(project / "seeds", options.rows, options.changed)
        print(f"build after {options.changed} rows have changed")
        again = build(project, runner)
        close_databases()
        write_project(project, folder / "fresh", settings)
        print("build from nothing with the changed seeds")
        full = build(project, runner)
        print(f"    {full / again:.1f} times as long")
        close_databases()
        unequal = differences(folder / "state", folder / "fresh")
    finally:
        shutil.rmtree(folder)
    if unequal:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
