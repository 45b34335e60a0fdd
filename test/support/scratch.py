"""Where tests keep their files: in memory where that is to be had, so that they wait for no disk that others are busy with.
Whether what was flushed survives a power cut, no test can see anyway."""

import os


def scratch_folder():
    """A folder for temporary files, or None for the system's."""
    folder, enough = "/dev/shm", 2 << 30
    try:
        free = os.statvfs(folder)
    except OSError:
        return None
    if not os.path.ismount(folder) or not os.access(folder, os.W_OK | os.X_OK) or free.f_bavail * free.f_frsize < enough:
        return None
    return folder
