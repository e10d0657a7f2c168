"""The scripts that a shell loads, one a shell; each asks `tinyagent` what may stand at the cursor.

Owns their text. Invariant: what is stored, a title say, is only ever data in them: it is read a
line at a time, never split at blanks, never expanded, and quoted before it is put on the line, by
`quoting` for bash and by zsh and fish themselves.

Source: bash manual, "Programmable Completion"; zsh manual, "Completion Widgets"; fish, "complete".
"""

from __future__ import annotations

VARIABLE = "_TINYAGENT_COMPLETE"

_BASH = """\
# Completion of tinyagent for bash. Load it from ~/.bashrc:
#   eval "$(tinyagent --show-completion bash)"
_tinyagent() {
    local found line="${COMP_LINE:0:COMP_POINT}"
    COMPREPLY=()
    while IFS= read -r found; do
        COMPREPLY+=("$found")
    done < <(_TINYAGENT_COMPLETE=bash "$1" "$line" "$COMP_WORDBREAKS" 2>/dev/null)
}
complete -o nosort -o default -F _tinyagent tinyagent 2>/dev/null ||
    complete -o default -F _tinyagent tinyagent
"""
_ZSH = """\
#compdef tinyagent
# Completion of tinyagent for zsh. Load it from ~/.zshrc, behind compinit:
#   eval "$(tinyagent --show-completion zsh)"
_tinyagent() {
    local value help
    local -a values shown
    while IFS=$'\\t' read -r value help; do
        values+=("$value")
        shown+=("$value${help:+  -- $help}")
    done < <(_TINYAGENT_COMPLETE=zsh "${(Q)words[1]}" "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#values )); then
        compadd -V tinyagent -l -d shown -a values
    else
        _files
    fi
}
if [[ $funcstack[1] == _tinyagent ]]; then
    _tinyagent "$@"
else
    compdef _tinyagent tinyagent
fi
"""
_FISH = """\
# Completion of tinyagent for fish. Load it from ~/.config/fish/config.fish:
#   tinyagent --show-completion fish | source
function __tinyagent_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    set -l found (_TINYAGENT_COMPLETE=fish $program $words "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete --command tinyagent --no-files --keep-order --arguments '(__tinyagent_complete)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
