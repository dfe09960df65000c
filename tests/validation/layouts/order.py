"""The order in which ranks compute, send and receive: of a trace of `rehearse run --trace`, in the words of train.py's Log."""
import collections
import json
import re

UNIT = re.compile(r"^(forward|backward) (embeddings|layers\.(\d+)|head)$")
SLACK_US = 1e-2  # of times that are printed to a nanosecond


class Rank:
    def __init__(self):
        self.computed, self.messages = [], collections.defaultdict(list)


def last_iteration(trace):
    """Spans of the last iteration that a trace has."""
    spans = [event for event in json.loads(trace)["traceEvents"] if event["ph"] == "X"]
    last = max(event["args"].get("iteration", 0) for event in spans)
    return [event for event in spans if event["args"].get("iteration") == last]


def read(trace):
    """By rank: what was computed in the last iteration and, by the names of groups, what was sent and received."""
    ranks, lanes, processes = collections.defaultdict(Rank), {}, {}
    for event in json.loads(trace)["traceEvents"]:
        if event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        elif event["name"] == "thread_name":  # of a process that is a stage's, its name has the rank
            name = f"{processes[event['pid']]}: {event['args']['name']}"
            found = re.search(r"rank (\d+) .*: (.*)", name)
            lanes[event["pid"], event["tid"]] = int(found[1]), found[2]
    for event in last_iteration(trace):
        rank, lane = lanes[event["pid"], event["tid"]]
        if lane == "compute" and (unit := UNIT.match(event["name"])):
            ranks[rank].computed.append((event["ts"], event["ts"] + event["dur"], unit[1], unit[2], unit[3]))
        elif lane.startswith(("send ", "receive ")):
            issued = event["ts"] - event["args"].get("waited_us", 0)
            ranks[rank].messages[event["args"]["group"], lane.split()[0]].append((issued, event["ts"] + event["dur"]))
    return ranks


def actions(computed, blocks, stages, tensor):
    """Runs of units that are one forward or backward of a stage: pass, stage, begin and end."""
    each, found, last = blocks // stages, [], None
    for begin, end, what, unit, block in sorted(computed):
        place = int(block) if block else (-1 if unit == "embeddings" else blocks)
        stage = min(max(place, 0) // each, stages - 1)
        forward = what == "forward"
        again = last and (place == last[2] and tensor == 1 or (place < last[2]) == forward and place != last[2])
        if last is None or (what, stage) != last[:2] or again:
            found.append([what[0].upper(), stage, begin, end])
        found[-1][3] = end
        last = what, stage, place
    return found


def order_of(rank, own, blocks, stages, pipeline, tensor):
    """Of a rank: a computation stands behind the message that it needs and in front of the one that it makes. AssertionError
    where times say otherwise."""
    micro, said = collections.Counter(), []
    taken = collections.Counter()

    def message(source, target, way):
        name = f"stages {source} to {target}", way
        taken[name] += 1
        return rank.messages[name][taken[name] - 1]

    def place(stage):
        return stage % pipeline * tensor + own % tensor

    for what, stage, begin, end in actions(rank.computed, blocks, stages, tensor):
        name = f"{what}{stage}.{micro[what, stage]}"
        micro[what, stage] += 1
        before, behind = (stage - 1, stage + 1) if what == "F" else (stage + 1, stage - 1)
        if 0 <= before < stages and pipeline > 1:
            assert message(before, stage, "receive")[1] <= begin + SLACK_US, f"rank {own}: {name} began before its input"
            said.append(f"{name}<{place(before)}")
        said.append(name)
        if 0 <= behind < stages and pipeline > 1:
            assert message(stage, behind, "send")[0] >= end - SLACK_US, f"rank {own}: {name} was sent before it ended"
            said.append(f"{name}>{place(behind)}")
    assert all(len(found) == taken[name] for name, found in rank.messages.items()), f"rank {own}: messages that nobody needs"
    return " ".join(said)


def orders(trace, case):
    """By rank, of a case of train.py. Messages of a lane come in the order of its micro-batches."""
    ranks = read(trace)
    for rank in ranks.values():
        for found in rank.messages.values():
            found.sort()
    return [order_of(ranks[own], own, case["model"]["layers"], case["stages"], case["pipeline"], case["tensor"])
            for own in range(case["pipeline"] * case["tensor"])]
