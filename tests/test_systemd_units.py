"""The user units: what they promise, and that systemd itself has nothing to say about them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from forged.maps import MOST_PACKS
from tests.support.clock import PATIENCE_S

UNITS = Path(__file__).parents[1] / "systemd"
ANALYZE = shutil.which("systemd-analyze")
# A bare unit scores 98 of 100. What is left of ours is the network, repositories anywhere, and capabilities
# that a user's process does not have in the first place.
THRESHOLD = 50

needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is missing: units NOT checked")


def settings(name: str) -> dict[str, str]:
    text = (UNITS / name).read_text()
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Both units with the path of a program that exists."""
    for unit in ("forged.service", "forged.socket"):
        text = (UNITS / unit).read_text().replace("@forged@", f'"{sys.executable}"')
        (tmp_path / unit).write_text(text)
    return tmp_path


def analyze(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "XDG_RUNTIME_DIR": str(where), "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}
    return subprocess.run(
        [ANALYZE, "--user", *arguments],
        cwd=where,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def verify(where: Path) -> tuple[int, str]:
    units = ("./forged.service", "./forged.socket")
    done = analyze(where, "verify", "--recursive-errors=no", *units)
    return done.returncode, done.stderr


@needs_systemd
def test_systemd_accepts_both_units_without_a_word_and_would_notice_a_misspelt_setting(installed):
    assert verify(installed) == (0, "")

    for unit in ("forged.service", "forged.socket"):
        text = (installed / unit).read_text()
        (installed / unit).write_text(text.replace("Mode=", "Mood="))
        assert "Mood" in verify(installed)[1]
        (installed / unit).write_text(text)


@needs_systemd
def test_exposure_stays_low(installed):
    done = analyze(installed, "security", "--offline=true", f"--threshold={THRESHOLD}", "./forged.service")
    exposure = [line for line in done.stdout.splitlines() if "Overall exposure" in line]

    assert exposure
    assert done.returncode == 0, exposure


def test_socket_is_for_its_user_alone():
    socket = settings("forged.socket")

    assert (socket["SocketMode"], socket["DirectoryMode"]) == ("0600", "0700")
    assert socket["FileDescriptorName"] == "forged"  # the name that sd_notify looks for


UNWANTED = {
    "stopping it leaves the socket": {"RuntimeDirectory"},
    "repositories anywhere stay writable": {"ProtectHome", "ReadWritePaths", "PrivateTmp", "PrivateNetwork"},
    "nothing is mounted over /proc": {"ProtectKernelTunables", "ProtectKernelLogs"},
}


@pytest.mark.parametrize("names", UNWANTED.values(), ids=UNWANTED)
def test_the_service_has_no_setting_that_takes_too_much(names):
    assert settings("forged.service").keys().isdisjoint(names)


def test_the_service_has_what_it_needs():
    service = settings("forged.service")

    assert service["Requires"] == service["After"] == service["Also"] == "forged.socket"
    assert service["ProtectSystem"] == "full"
    assert (service["Type"], service["WatchdogSec"]) == ("notify", "30")
    assert int(service["TimeoutStopSec"]) > 5  # the daemon gives itself five
    # Unusable configuration is not restarted.
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "78")


def test_the_service_may_keep_the_vectors_of_as_many_roots_as_are_packed():
    assert settings("forged.service")["FileDescriptorStoreMax"] == str(MOST_PACKS)


def test_no_number_of_starts_takes_the_socket_down_and_none_follows_another_at_once():
    service = settings("forged.service")

    assert service["StartLimitIntervalSec"] == "0"
    assert int(service["RestartSec"]) >= 5
