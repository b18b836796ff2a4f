"""`forgectl service` with stand-ins for systemd's programs; the real ones are asked elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable

import pytest

RUNNING = "ActiveState=active\nSubState=running\nMainPID=77\nNRestarts=2\nUnitFileState=disabled\n"
LISTENING = "ActiveState=active\nSubState=listening\nUnitFileState=enabled\n"
# Somebody's own, from a package or from the manual of an earlier version.
OWN = "[Socket]\nListenStream=%t/forged/forged.sock\n"


@pytest.fixture
def service(forgectl, systemd) -> Callable[..., object]:
    """`forgectl service ...` of an installation with a program that exists."""

    def run(*arguments: str, **surroundings: object) -> object:
        given = {"programs": systemd.programs, "executable": sys.executable, **surroundings}
        return forgectl("service", *arguments, **given)

    return run


# As systemd reads it.
_PROGRAM = f'"{sys.executable}"' if " " in sys.executable else sys.executable


def unit(systemd, name="forged.service"):
    return (systemd.units / name).read_text()


def test_install_writes_the_path_of_this_program_has_systemd_listen_and_says_each_step(service, systemd):
    done = service("install")

    address = f"{os.environ['XDG_RUNTIME_DIR']}/forged/forged.sock"
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        f"wrote {systemd.units}/forged.socket",
        f"wrote {systemd.units}/forged.service",
        f"enabled forged.socket: systemd listens at {address}; the first request starts the daemon",
    ]
    assert f"\nExecStart={_PROGRAM} serve\n" in unit(systemd)
    assert "%h" not in unit(systemd)
    assert systemd.received() == ["daemon-reload", "enable --now forged.socket"]


def test_install_done_again_changes_nothing_and_says_so(service, systemd):
    service("install")
    before = {file.name: (file.stat().st_mtime_ns, file.read_text()) for file in systemd.units.iterdir()}
    reported = systemd.received()

    again = service("install")

    assert again.code == 0
    assert [line.rpartition(" is ")[2] for line in again.out.splitlines()[:2]] == ["up to date", "up to date"]
    assert systemd.received() == reported
    assert before == {f.name: (f.stat().st_mtime_ns, f.read_text()) for f in systemd.units.iterdir()}


def test_units_of_another_installation_are_brought_up_to_date_unasked(service, systemd):
    service("install", executable="/opt/elsewhere/forged")
    systemd.answer("forged.service", RUNNING)

    done = service("install")

    assert f"replaced {systemd.units}/forged.service" in done.out
    assert f"ExecStart={_PROGRAM} serve" in unit(systemd)
    assert systemd.received()[-1] == "daemon-reload"
    assert "`forgectl restart` applies the new ones" in done.out


@pytest.mark.parametrize("changed", ["a line of mine", "a unit of mine", "masked"])
def test_a_unit_that_a_person_wrote_or_changed_is_never_touched_unasked(service, systemd, changed):
    service("install")
    file, reported = systemd.units / "forged.socket", systemd.received()
    if changed == "masked":
        file.unlink()
        file.symlink_to("/dev/null")
    else:
        file.write_text(OWN if changed == "a unit of mine" else f"{file.read_text()}Mark=1\n")
    left = os.readlink(file) if file.is_symlink() else file.read_text()

    for verb in ("install", "uninstall"):
        done = service(verb)
        assert (done.code, done.out) == (1, ""), verb
        assert f"{file} is " in done.err
    assert (os.readlink(file) if file.is_symlink() else file.read_text()) == left
    assert (systemd.units / "forged.service").exists()
    assert systemd.received() == reported


def test_a_unit_that_a_person_wrote_is_replaced_when_that_is_asked_for(service, systemd):
    systemd.units.mkdir(parents=True)
    (systemd.units / "forged.socket").write_text(OWN)

    done = service("install", "--replace")

    assert (done.code, service("status").code) == (0, 0)
    assert f"replaced {systemd.units}/forged.socket" in done.out


def test_a_link_is_not_followed_even_when_units_may_be_replaced(service, systemd, tmp_path):
    systemd.units.mkdir(parents=True)
    (tmp_path / "elsewhere").write_text(OWN)
    (systemd.units / "forged.socket").symlink_to(tmp_path / "elsewhere")

    assert service("install", "--replace").code == 1
    assert (tmp_path / "elsewhere").read_text() == OWN


def test_uninstall_takes_away_what_install_wrote_and_nothing_else(service, systemd):
    service("install")
    dropin = systemd.units / "forged.service.d" / "override.conf"
    dropin.parent.mkdir()
    dropin.write_text("[Service]\nMemoryMax=2G\n")
    (systemd.units / "other.service").write_text("[Service]\n")
    systemd.answer("forged.service", RUNNING)

    done = service("uninstall")

    assert done.code == 0, done.err
    assert systemd.received()[-2:] == ["disable --now forged.socket forged.service", "daemon-reload"]
    assert "the daemon has ended, pid 77" in done.out
    assert sorted(path.name for path in systemd.units.iterdir()) == ["forged.service.d", "other.service"]
    assert dropin.exists()
    assert service("uninstall").out == "no unit of forged is installed\n"
    assert service("status").code == 1


def test_uninstall_without_a_manager_removes_its_own_links_too(service, systemd):
    service("install")
    wants = systemd.units / "sockets.target.wants"
    wants.mkdir()
    (wants / "forged.socket").symlink_to(systemd.units / "forged.socket")
    systemd.answer("silent", "")

    done = service("uninstall")

    assert done.code == 0, done.err
    assert list(systemd.units.iterdir()) == []
    assert f"removed {wants}/forged.socket" in done.out


def test_where_no_manager_answers_the_units_are_written_and_the_sentence_says_what_to_do(service, systemd):
    systemd.answer("silent", "")

    done = service("install")

    assert done.code == 69
    assert "systemd's user manager does not answer (Failed to connect to bus" in done.err
    assert "run `forgectl service install` again" in done.err
    assert len(list(systemd.units.iterdir())) == 2
    (systemd.folder / "silent").unlink()
    assert service("install").code == 0  # in a session that has one


def test_a_manager_that_reads_another_home_gets_no_command(service, systemd):
    """HOME may be another than the manager's: it would enable units that are not these."""
    systemd.answer("unit-path", "/somebody/.config/systemd/user /usr/lib/systemd/user\n")

    done = service("install")

    assert done.code == 69
    assert f"does not read {systemd.units}" in done.err
    assert systemd.received() == []


def test_without_systemd_nothing_is_written(service, systemd, tmp_path):
    done = service("install", programs=(str(tmp_path),))

    assert done.code == 69
    assert "systemctl was not found, so nothing was installed" in done.err
    assert not systemd.units.exists()
    assert service("status", programs=(str(tmp_path),)).code == 1


def test_what_systemd_fails_to_do_is_reported_in_its_words(service, systemd):
    systemd.answer("enable-fails", "Unit file is masked.\n")

    done = service("install")

    assert done.code == 69
    assert "`systemctl --user enable --now forged.socket` failed: Unit file is masked." in done.err


def test_units_that_systemd_refuses_are_not_written(service, systemd):
    systemd.add("systemd-analyze")
    systemd.answer("systemd-analyze-stderr", "forged.service: Command is not executable\n")
    systemd.answer("systemd-analyze-code", "1")

    done = service("install")

    assert done.code == 69
    assert "systemd refuses the units, so nothing was done: forged.service: Command is not" in done.err
    assert not systemd.units.exists()


def test_a_remark_of_systemd_on_the_units_is_reported_and_stops_nothing(service, systemd):
    systemd.add("systemd-analyze")
    systemd.answer("systemd-analyze-stderr", "other.service: bad\nforged.service:9: Unknown key name 'X'\n")

    done = service("install")

    assert done.code == 0
    assert "systemd warns about the units: forged.service:9: Unknown key name 'X'\n" in done.err
    assert systemd.received("systemd-analyze")[0].startswith("--user verify ")


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing: units NOT checked"
)
@pytest.mark.parametrize("name", ["forged", "a folder/forged", "100%h/forged", "$HOME/forged"])
def test_the_path_of_any_program_reaches_systemd_as_it_is(service, systemd, tmp_path, name):
    program = tmp_path / "installed" / name
    program.parent.mkdir(parents=True)
    shutil.copy("/bin/true", program)
    (systemd.folder / "bin/systemd-analyze").symlink_to(shutil.which("systemd-analyze"))

    done = service("install", executable=str(program))

    assert (done.code, done.err) == (0, "")
    program.unlink()
    assert f"Command {program} is not executable" in service("install", executable=str(program)).err


def test_a_path_that_systemd_cannot_start_is_refused(service, systemd):
    done = service("install", executable='/opt/"quoted"/forged')

    assert done.code == 69
    assert "install forged in another folder" in done.err
    assert not systemd.units.exists()


def test_lingering_is_offered_and_never_switched_on(service, systemd):
    systemd.add("loginctl")
    systemd.answer("loginctl", "no\n")

    done = service("install")

    assert "`loginctl enable-linger`" in done.err
    assert all(line.startswith("show-user ") for line in systemd.received("loginctl"))
    systemd.answer("loginctl", "yes\n")
    assert service("install").err == ""


def test_status_shows_the_files_and_how_systemd_sees_them(service, systemd):
    service("install")
    systemd.answer("forged.service", RUNNING)

    shown, whole = service("status"), service("status", "--json").json

    assert shown.code == 0
    assert shown.out.splitlines() == [
        f"{systemd.units}/forged.socket: up to date",
        f"{systemd.units}/forged.service: up to date",
        "forged.socket   active (listening), enabled",
        "forged.service  active (running), disabled, pid 77, 2 restarts",
    ]
    assert [each["active"] for each in whole["units"]] == ["active", "active"]
    (systemd.folder / "forged.socket").unlink()
    assert service("status").code == 3


def test_steps_are_one_object_under_json(service):
    assert len(service("install", "--json").json["done"]) == 3


def test_vectors_outlive_a_stop_where_systemd_can_keep_them_and_never_an_uninstall(service, systemd):
    service("install")
    assert "\nFileDescriptorStorePreserve=yes\n" not in unit(systemd)
    service("uninstall")
    assert not any("clean" in line for line in systemd.received())

    systemd.answer("version", "systemd 254 (254.1)\n+PAM\n")
    service("install")
    assert "\nFileDescriptorStorePreserve=yes\n" in unit(systemd)
    assert service("uninstall").code == 0
    assert systemd.received()[-2:] == ["clean --what=fdstore forged.service", "daemon-reload"]


def test_doctor_says_what_is_wrong_with_a_service_and_nothing_where_there_is_none(forgectl, service, systemd):
    def found(**surroundings):
        given = {"programs": systemd.programs, "executable": sys.executable, **surroundings}
        reported = forgectl("doctor", "--json", "--no-autostart", **given).json["checks"]
        return [(check["level"], check["detail"]) for check in reported if check["name"] == "service"]

    assert found() == []
    service("install")
    assert found() == [("ok", "systemd listens")]
    assert found(executable="/opt/newer/forged") == [
        ("warn", f"{systemd.units}/forged.service is of another installation or version")
    ]
    (systemd.folder / "forged.socket").unlink()
    assert found() == [("warn", "systemd does not listen on the socket")]
    (systemd.units / "forged.socket").write_text(OWN)
    systemd.answer("forged.socket", LISTENING)
    assert found() == [("ok", f"systemd listens; changed by you: {systemd.units}/forged.socket")]
    systemd.answer("silent", "")
    assert found()[0][1].startswith("systemd's user manager does not answer")
