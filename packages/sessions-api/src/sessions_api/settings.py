"""Settings: flags before environment before `config.toml` in the state home.

Owns the names (`TINYAGENT_PROVIDER`, `_MODEL`, `_BASE_URL`, `_API_KEY`, `_SYSTEM_PROMPT`) and
their sources. Keys are `SecretStr` and leave this module only towards a provider. The state home
itself is not a setting: `workspace_identity` reads it from the environment alone, because the
configuration lies in it.

Importing this module costs a third of a second; commands that need no provider do without it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from sessions_api.errors import SettingsInvalid

if TYPE_CHECKING:
    from pathlib import Path

CONFIG_NAME = "config.toml"


class Settings(BaseSettings):
    """What is configured. `None` means "not set"; the provider is then `offline`."""

    model_config = SettingsConfigDict(
        env_prefix="TINYAGENT_", extra="forbid", env_ignore_empty=True, hide_input_in_errors=True
    )

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: SecretStr | None = None
    system_prompt: str | None = None

    @classmethod
    def load(cls, state_home: Path, **flags: Any) -> Settings:
        """Read all sources; *flags* that are None were not given.

        SettingsInvalid names the setting, never its value.
        """
        path = state_home / CONFIG_NAME

        class FromHome(cls):  # type: ignore[valid-type, misc]  # the file's place is known only now
            @classmethod
            def settings_customise_sources(
                cls,
                settings_cls: type[BaseSettings],
                init_settings: PydanticBaseSettingsSource,
                env_settings: PydanticBaseSettingsSource,
                dotenv_settings: PydanticBaseSettingsSource,
                file_secret_settings: PydanticBaseSettingsSource,
            ) -> tuple[PydanticBaseSettingsSource, ...]:
                del dotenv_settings, file_secret_settings
                toml = TomlConfigSettingsSource(settings_cls, toml_file=path)
                return init_settings, env_settings, toml

        given = {name: value for name, value in flags.items() if value is not None}
        try:
            loaded: Settings = FromHome(**given)
        except ValidationError as error:
            places = ", ".join(
                f"{'.'.join(map(str, one['loc']))} ({_said_of(one['type'], one['msg'])})"
                for one in error.errors(include_url=False, include_input=False)
            )
            raise SettingsInvalid(
                f"These settings cannot be used: {places}.",
                hint=f"Check the flags, the TINYAGENT_ variables and {path}.",
            ) from None
        except (SettingsError, ValueError, OSError) as error:
            raise SettingsInvalid(
                f"The configuration {path} cannot be read ({_place_of(error)}).",
                hint="Correct the file, or move it away.",
            ) from None
        return loaded


def _said_of(kind: str, message: str) -> str:
    known = ", ".join(Settings.model_fields)
    return f"no such setting; there are {known}" if kind == "extra_forbidden" else message


def _place_of(error: Exception) -> str:
    """Return the type of *error* and, of broken TOML, where: its message may quote a key."""
    place = re.search(r"\(at [a-z0-9, ]+\)$", str(error.__cause__ or error))
    return type(error).__name__ + (f" {place[0][1:-1]}" if place else "")
