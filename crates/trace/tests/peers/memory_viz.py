"""Shows a written snapshot to PyTorch's own tools, where torch is installed.

Usage: python3 memory_viz.py FILE.pickle...

For each file: Python's pickle reads it; the blocks of each segment tile it; and the functions of
torch.cuda._memory_viz draw segments, memory, statistics, the trace and the plots. No GPU is needed.
Ends with 1 if any of them fails, with 3 if torch is missing.
"""

import pickle
import sys


def check(name):
    with open(name, "rb") as file:
        snapshot = pickle.load(file)
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address, (segment, block)
            address += block["size"]
        assert address == segment["address"] + segment["total_size"], segment
    failed = []
    drawn = {}
    # Flame graphs are drawn by a script that would be downloaded: their lines will do.
    lines = {"format_flamegraph": lambda lines: lines}
    functions = {"segsum": {}, "memory": lines, "segments": lines, "trace": {}, "trace_plot": {}}
    functions["segment_plot"] = {}
    for function, options in functions.items():
        try:
            drawn[function] = len(getattr(_memory_viz, function)(snapshot, **options))
        except Exception as error:  # Whatever it is, the file did not suit the tool.
            failed.append(f"{function}: {type(error).__name__}: {error}")
    traced = sum(len(trace) for trace in snapshot["device_traces"])
    print(f"{name}: {len(snapshot['segments'])} segments, {traced} entries, drawn {drawn}")
    for line in failed:
        print(f"  failed: {line}")
    return not failed


try:
    from torch.cuda import _memory_viz
except ImportError as error:
    print(f"torch is missing: {error}")
    sys.exit(3)

sys.exit(0 if all([check(name) for name in sys.argv[1:]]) else 1)
