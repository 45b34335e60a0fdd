"""The folder of a sweep, which is also how a killed one goes on where it was:

  sweep.json          what is swept: settings, order, load; written once
  runs/ID[-again].json   a record a finished run, written whole or not at all
  reports/            what loadgen wrote, one report a run
  active.json         where the systems of the run that is under way stand, to be cleaned up by whoever comes next
  index.html          the page"""

import fcntl
import json
import os


class Damaged(OSError):
    """A file of the folder is missing or not whole."""


class OtherSweep(Exception):
    """The folder holds another sweep."""


def write_json(path, value):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def read_json(path):
    """Damaged when it is not whole: all of them are written whole, so something else has been at it."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        raise Damaged(f"{path} is damaged ({error}): remove it, and its run is made again") from None


class Store:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.lock = None

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def begin(self, plan):
        """Takes the folder for this sweep, which may have begun there; OtherSweep when it holds another one."""
        for name in ("runs", "reports"):
            os.makedirs(self.path(name), exist_ok=True)
        self.lock = open(self.path(".lock"), "w", encoding="ascii")  # as long as this process lives
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OtherSweep(f"another sweep is at work in {self.folder}") from None
        if os.path.exists(self.path("sweep.json")):
            differing = [key for key in plan if self.plan().get(key) != plan[key]]
            if differing:
                raise OtherSweep(f"{self.folder} holds a sweep with other {', '.join(differing)}: take another --out")
        else:
            write_json(self.path("sweep.json"), plan)

    def plan(self):
        if not os.path.exists(self.path("sweep.json")):
            raise Damaged(f"there is no sweep in {self.folder}")
        return read_json(self.path("sweep.json"))

    def records(self):
        """(id, attempt) -> record."""
        found = {}
        for name in sorted(os.listdir(self.path("runs"))):
            if name.endswith(".json"):
                record = read_json(self.path("runs", name))
                found[record["id"], record["attempt"]] = record
        return found

    def add(self, record):
        again = "-again" if record["attempt"] > 1 else ""
        write_json(self.path("runs", record["id"] + again + ".json"), record)

    def report(self, record):
        return read_json(self.path(record["report"]))

    def set_active(self, system_folder):
        if system_folder:
            write_json(self.path("active.json"), {"system": system_folder})
        elif os.path.exists(self.path("active.json")):
            os.remove(self.path("active.json"))

    def left_active(self):
        """The folder of systems that an earlier sweep left running, or None."""
        try:
            return read_json(self.path("active.json"))["system"]
        except (OSError, ValueError):
            return None
