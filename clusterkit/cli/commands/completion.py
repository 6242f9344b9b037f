"""`clusterkit completion`: prints the completion script for a shell."""

from __future__ import annotations

import click

from clusterkit.cli.help import Command
from clusterkit.cli.terminal import echo

# click's own function for bash would pass worker:1 as three words, because bash also splits words at colons.
_BASH = r"""
_clusterkit_complete() {
    local line="${COMP_LINE:0:$COMP_POINT}" cut reply
    local current="${line##*[[:space:]]}"
    [[ "$COMP_WORDBREAKS" == *:* ]] && cut="${current%"${current##*:}"}"
    local -a words=($line)
    local count=$((${#words[@]} - 1))
    [[ "$line" == *[[:space:]] ]] && count=${#words[@]}
    COMPREPLY=()
    while IFS=, read -r kind reply; do
        case "$kind" in
            dir|file) compopt -o default 2>/dev/null ;;
            *) COMPREPLY+=("${reply#"$cut"}") ;;
        esac
    done < <(COMP_WORDS="$line" COMP_CWORD="$count" _CLUSTERKIT_COMPLETE=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F _clusterkit_complete clusterkit
"""


@click.command(
    "completion", cls=Command, examples=[("completion fish > ~/.config/fish/completions/clusterkit.fish", "")]
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that a shell needs to complete commands, runs and tasks.

    For bash, add this to ~/.bashrc: eval "$(clusterkit completion bash)"
    """
    from click.shell_completion import get_completion_class

    from clusterkit.cli import cli

    if shell == "bash":
        echo(_BASH.strip())
        return
    kind = get_completion_class(shell)
    assert kind is not None
    echo(kind(cli, {}, "clusterkit", "_CLUSTERKIT_COMPLETE").source())
