"""Fake programs of systemd: they record their calls, and answer from files of the test."""

from __future__ import annotations

from pathlib import Path

_SYSTEMCTL = """#!/bin/sh
cd '{folder}'
test "$1" = --version && {{ cat version; exit 0; }}
shift  # --user
echo "$@" >> told
test -e silent && {{ echo "Failed to connect to bus: No medium found" >&2; exit 1; }}
if test -e "$1-fails"; then cat "$1-fails" >&2; exit 1; fi
case "$*" in
    "show --property=UnitPath --value") cat unit-path ;;
    show*) cat "$2" 2>/dev/null || echo ActiveState=inactive ;;
    enable*) printf 'ActiveState=active\\nSubState=listening\\nUnitFileState=enabled\\n' > forged.socket ;;
    disable* | stop*) for unit; do rm -f "$unit"; done ;;
esac
exit 0
"""
_SAYS = """#!/bin/sh
cd '{folder}'
echo "$@" >> '{name}-told'
test -e '{name}' && cat '{name}'
test -e '{name}-stderr' && cat '{name}-stderr' >&2
exit "$(cat '{name}-code' 2>/dev/null || echo 0)"
"""


class StandIns:
    """A folder of programs; `folder` is also where they find what to answer and leave what they were told."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.units = home / ".config/systemd/user"
        self.add("systemctl", _SYSTEMCTL)
        self.answer("version", "systemd 252 (252.1)\n+PAM\n")
        self.answer("unit-path", f"/run/systemd/user {self.units} /usr/lib/systemd/user\n")

    @property
    def programs(self) -> tuple[str, ...]:
        return (str(self.folder / "bin"),)

    def add(self, name: str, script: str = _SAYS) -> None:
        (self.folder / "bin").mkdir(parents=True, exist_ok=True)
        file = self.folder / "bin" / name
        file.write_text(script.format(folder=self.folder, name=name))
        file.chmod(0o755)

    def answer(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def received(self, program: str = "") -> list[str]:
        """What systemctl was told, but for questions; or all that another program was."""
        file = self.folder / (f"{program}-told" if program else "told")
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if program or not line.startswith("show ")]
