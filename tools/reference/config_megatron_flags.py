"""Writes src/config/megatron_flags.c: name and values of every flag of Megatron-LM.

    config_megatron_flags.py ARGS.tsv > src/config/megatron_flags.c

ARGS.tsv has one argument a row, as the parser that Megatron-LM's add_megatron_arguments() builds
lists them: its column "options" holds the spellings as --a/--b, "type" the type or the class of
the argparse action, "nargs" argparse's number of values.
"""

import csv
import sys

HEADER = """/* The flags of Megatron-LM, sorted, some to a line. Made by
 * tools/reference/config_megatron_flags.py from Megatron-LM's own parser; do not edit. */
#include "config/megatron_flags.h"

const char *const haul_megatron_flag_lines[] = {
"""
WIDTH = 94
SWITCHES = ("StoreTrue", "StoreFalse", "BooleanOptional")


def mark(row):
    """What stands behind a name: nothing for a switch, = for a value, =+ for several."""
    if row["type"] in SWITCHES or (row["type"] == "bool" and "--no-" in row["options"]):
        return ""
    return "=+" if row["nargs"] else "="


def names(path):
    with open(path, newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            for option in row["options"].split("/"):
                if option.startswith("--") and option != "--help":
                    yield option[2:].replace("_", "-") + mark(row)


def lines(words):
    line = ""
    for word in words:
        if line and len(line) + 1 + len(word) > WIDTH - 4:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
    yield line


def main():
    print(HEADER, end="")
    for line in lines(sorted(set(names(sys.argv[1])))):
        print(f'    "{line}",')
    print("    NULL};")


if __name__ == "__main__":
    main()
