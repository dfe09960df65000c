"""The cases of plan.csv, and what each sets of hosts.yaml."""
import csv
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
BLOCKS = 8


def settings(row):
    """What a case sets of hosts.yaml."""
    layout = ["ddp: {}", f"micro_batches: {row['micro_batches']}"]
    if row["pipeline"] > 1:
        chunks = f", virtual_stages: {row['virtual_stages']}" if row["virtual_stages"] > 1 else ""
        layout += [f"pipeline_parallel: {row['pipeline']}",
                   f"pipeline: {{schedule: {row['schedule']}{chunks}}}"]
    if row["tensor"] > 1:
        layout += [f"tensor_parallel: {row['tensor']}", "async_tensor_model_parallel_allreduce: false"]
    return [f"cluster.nodes={row['pipeline'] * row['tensor']}", f"cluster.node.nic={row['rate_mbit']}Mbps",
            f"strategy={{{', '.join(layout)}}}", "framework=torch"]


def plan(only=""):
    with open(HERE / "plan.csv", encoding="utf-8") as file:
        rows = [{key: int(value) if value.isdigit() else value for key, value in row.items()}
                for row in csv.DictReader(file)]
    return [row for row in rows if only in row["name"]]
