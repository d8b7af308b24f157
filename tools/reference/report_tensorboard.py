#!/usr/bin/env python3
"""Makes and checks TensorBoard event files with the tensorboard package.

report_tensorboard.py write FILE   the golden file of tests/report/test_tensorboard.c
report_tensorboard.py read FILE    prints the events that tensorboard reads from a file
"""

import sys

from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto import event_pb2, types_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

WALL = 1760000000.25


def write(path):
    with open(path, "wb") as file:
        records = RecordWriter(file)
        event = event_pb2.Event(wall_time=WALL, file_version="brain.Event:2")
        records.write(event.SerializeToString())

        for tag, value, step in (("lm loss", 2.5, 1), ("lm loss vs samples", 1e-3, 300)):
            event = event_pb2.Event(wall_time=WALL + 1, step=step)
            event.summary.value.add(tag=tag, simple_value=value)
            records.write(event.SerializeToString())

        event = event_pb2.Event(wall_time=WALL + 2, step=1 << 40)
        value = event.summary.value.add(tag="sample")
        value.metadata.plugin_data.plugin_name = "text"
        value.tensor.dtype = types_pb2.DT_STRING
        value.tensor.tensor_shape.dim.add(size=1)
        value.tensor.string_val.append("Ünï\ufffd ".encode() + b"long " * 30)
        records.write(event.SerializeToString())


def read(path):
    for event in LegacyEventFileLoader(path).Load():
        print(event)


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](sys.argv[2])
