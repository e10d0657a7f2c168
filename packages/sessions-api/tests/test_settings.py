from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING

import pytest

from sessions_api import Agent, SettingsInvalid
from sessions_api.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

KEY = "sk-" + "made-up-for-tests-0123456789"


def configure(state_home: Path, text: str) -> None:
    """Write the configuration file."""
    state_home.mkdir(mode=0o700)
    (state_home / "config.toml").write_text(text, encoding="utf-8")


def test_nothing_is_set_by_default(state_home: Path) -> None:
    """A missing file is no error and nothing is created."""
    loaded = Settings.load(state_home)
    assert loaded.model_dump() == dict.fromkeys(Settings.model_fields)
    assert not state_home.exists()


def test_flags_win_over_the_environment_and_that_over_the_file(
    state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not given as a flag, or is empty in the environment, counts as not given."""
    configure(state_home, 'provider = "openai"\nmodel = "file"\nbase_url = "http://file"\n')
    monkeypatch.setenv("TINYAGENT_MODEL", "env")
    monkeypatch.setenv("TINYAGENT_BASE_URL", "")
    loaded = Settings.load(state_home, model="flag", provider=None)
    assert (loaded.provider, loaded.model, loaded.base_url) == ("openai", "flag", "http://file")
    assert Settings.load(state_home).model == "env"


def test_the_state_home_is_no_setting(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variable has the prefix and is read elsewhere."""
    monkeypatch.setenv("TINYAGENT_STATE_HOME", str(state_home))
    assert Settings.load(state_home).provider is None


def test_a_key_is_never_shown(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a repr nor in an error about something else."""
    monkeypatch.setenv("TINYAGENT_API_KEY", KEY)
    loaded = Settings.load(state_home)
    assert loaded.api_key is not None
    assert loaded.api_key.get_secret_value() == KEY
    assert KEY not in repr(loaded) + str(loaded.model_dump()) + loaded.model_dump_json()


@pytest.mark.parametrize(
    "text",
    [
        f'api_key = ["{KEY}"]',
        f'apikey = "{KEY}"',
        f"api_key = {KEY}",
        f'[section]\nkey = "{KEY}"',
        f'model = 3\napi_key = "{KEY}"',
    ],
)
def test_a_setting_that_cannot_be_used_is_named_without_its_value(
    state_home: Path, text: str
) -> None:
    """The file is named too, and the traceback has no secret either."""
    configure(state_home, text)
    with pytest.raises(SettingsInvalid) as caught:
        Settings.load(state_home)
    shown = "".join(traceback.format_exception(caught.value)) + str(caught.value.hint)
    assert KEY not in shown
    assert "config.toml" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no_such = 'x'", "no_such (no such setting; there are provider, model,"),
        ("model = 'a'\nprovider =", "TOMLDecodeError at "),
    ],
)
def test_what_is_wrong_with_the_configuration_can_be_found(
    state_home: Path, text: str, said: str
) -> None:
    """A mistyped name comes with those that exist, broken TOML with its place."""
    configure(state_home, text)
    with pytest.raises(SettingsInvalid, match=re.escape(said)):
        Settings.load(state_home)


def test_an_agent_with_bad_settings_opens_nothing(workspace: Path, state_home: Path) -> None:
    """No store is left open, no claim on disk, no marker in the workspace."""
    configure(state_home, "provider = 3")
    with pytest.raises(SettingsInvalid):
        Agent(workspace, state_home=state_home)
    assert [path.name for path in state_home.iterdir()] == ["config.toml"]
    assert list(workspace.iterdir()) == []


def test_an_address_without_a_provider_is_not_ignored(workspace: Path, state_home: Path) -> None:
    """Who names a service and gets the offline provider would not notice that nobody was asked."""
    with Agent(workspace, state_home=state_home, base_url="http://127.0.0.1:9/v1") as agent:
        with pytest.raises(SettingsInvalid, match=r"127\.0\.0\.1") as caught:
            agent.run("hello")
        assert "--provider openai" in str(caught.value.hint)
        assert agent.sessions.list().items == ()
