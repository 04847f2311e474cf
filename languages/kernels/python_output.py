# SPDX-License-Identifier: Apache-2.0
"""Standard output and error of the Python kernel, which has no buffer for them: they show at once what a cell prints."""
import io
import select
import sys


class Whole(io.FileIO):
    """A write is cut short where a signal or a freeze falls into it, and CPython would drop the rest (cpython#86210). It
    uses no name of `builtins`, where a cell may put its own."""

    def write(self, data, view=memoryview, write=io.FileIO.write):
        data = view(data).cast("B")
        done = 0
        while done < data.nbytes:
            wrote = write(self, data[done:])
            if wrote is None:  # the program made it non-blocking
                select.select((), (self,), ())
            done += wrote or 0
        return done


def whole(name):
    """Puts Whole below sys.stdout or sys.stderr, if nothing buffers it."""
    text = getattr(sys, name)
    if type(text) is not io.TextIOWrapper or type(text.buffer) is not io.FileIO:
        return
    raw = Whole(text.fileno(), "w", closefd=False)
    raw.name = text.name
    made = io.TextIOWrapper(raw, text.encoding, text.errors, "\n", text.line_buffering, True)
    made.mode = text.mode
    setattr(sys, name, made)
    setattr(sys, f"__{name}__", made)
