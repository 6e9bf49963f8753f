#!/bin/sh
# Three runs, and what can be done with them: one is stopped and later reopened, one does not listen and is forced,
# one loses its workflow and is resumed. On a stack of its own in a temporary folder, which is gone afterwards.
#
# Usage: examples/control.sh        (after `make run`, `make up` or `make test`, which install what it needs)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
PATH="$here/../.venv/bin:$PATH"
folder=$(mktemp -d)
export CRAWLER_STATE="$folder/state"

at_the_end() {
    trap - EXIT
    kill -INT "$stack" 2>/dev/null || true
    wait "$stack" || true
    rm -rf "$folder"
}

explain() { printf '\n# %s\n' "$*"; }
crawl() { # shows the command as one would type it, and runs it
    line="$ crawlctl"
    for word; do
        case $word in *" "*) line="$line \"$word\"" ;; *) line="$line $word" ;; esac
    done
    echo "$line"
    crawlctl "$@"
}
patiently() { # until the command succeeds, for a minute
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { echo "waited in vain: $*" >&2; exit 1; }
        sleep 0.3
    done
}

# The first attempt of a `moody` job sleeps, the next one succeeds; a `stubborn` one does not end when it is asked to.
# A `brief` one waits for the file "enough", which comes once its run was resumed.
cat > "$folder/catalogue.toml" <<'CATALOGUE'
[crawlers.moody]
command = ["sh", "-c", "[ $CRAWL_ATTEMPT -gt 1 ] || exec sleep 600"]
processes = 3

[crawlers.stubborn]
command = ["sh", "-c", "trap 'echo asked to end, going on' TERM; while :; do sleep 0.2; done"]
grace_seconds = 600

[crawlers.brief]
command = ["sh", "-c", "until [ -e \"$ENOUGH\" ]; do sleep 0.2; done"]
CATALOGUE
echo "environment = { ENOUGH = \"$folder/enough\" }" >> "$folder/catalogue.toml"

crawlctl up --free-ports --stop-jobs --catalogue "$folder/catalogue.toml" > "$folder/up.log" 2>&1 &
stack=$!
trap at_the_end EXIT
trap 'exit 130' INT TERM HUP
is_up() {
    kill -0 $stack 2>/dev/null || { cat "$folder/up.log" >&2; exit 1; }
    grep -q "The stack is up" "$folder/up.log"
}
patiently is_up

explain "Three runs are started."
crawl run moody --detach
crawl run stubborn --detach
crawl run brief --detach
all_run() { [ "$(crawlctl list --status PROCESSING | grep -c PROCESSING)" = 3 ]; }
patiently all_run
crawl list

explain "Run 1 is stopped; --wait follows the stop until no job of the run is left."
crawl stop 1 --actor ann --reason "wrong arguments" --wait

explain "Run 2 does not listen. Its grace period is long, so somebody else forces it."
crawl stop 2 --actor ann --reason "takes too long"
crawl stop 2 --actor bob --force --wait

explain "The workflow of run 3 is terminated. Its job continues, but nobody watches, until it is resumed."
address=$(sed -n 's/.*"TEMPORAL_ADDRESS": *"\([^"]*\)".*/\1/p' "$CRAWLER_STATE/stack.json")
workflow=$(crawlctl show 3 | sed -n 's/^ *workflow *//p')
echo "$ temporal workflow terminate --workflow-id $workflow"
temporal workflow terminate --workflow-id "$workflow" --address "$address"
crawl resume 3
touch "$folder/enough"
crawl watch 3

explain "Run 1 is reopened: each of its tasks gets another attempt, on the same history."
crawl resume 1 --reopen
crawl watch 1
crawl show 1

explain "That is how they ended."
crawl list
