. "$(dirname "$0")/lib.sh"
inflate=$(dirname "$OUTRIDER")/bench/inflate
"$TOOLS/damaged_model" stories.gguf 0.1 draft.gguf
# The same text at the price of sixteen layers of 3 MiB.
"$inflate" stories.gguf --out grown.gguf --width 512 --feed-forward 1536 --layers 16 --type q8_0 >/dev/null
outrider convert grown.gguf --out target.gguf --flash >/dev/null
trap 'kill "$server_pid" 2>/dev/null || true' EXIT
memory=$(outrider plan --target target.gguf --draft draft.gguf --memory 900MiB 2>/dev/null | sed -n 's/the least that works: \([0-9]*\)MiB/\1/p')
memory=$((memory + 60))MiB  # gRPC's share, and some layers

setting=(--prompt 'Once upon a time' --max-tokens 150 --temperature 0.9 --top-p 0.95 --seed 5)
text=$(outrider run --model grown.gguf "${setting[@]}" 2>/dev/null)
write() { outrider run --server "$address" --draft draft.gguf "${setting[@]}" --verbose "$@" 2>summary.txt; }

# A server that is killed in the middle of a text: it goes on from flash, and from memory. The server has the same model in
# rows, so it is the same text.
for budget in "--memory $memory" ''; do
  start --model grown.gguf --listen 127.0.0.1:0
  # shellcheck disable=SC2086
  begin_text out.txt write --fallback target.gguf $budget
  kill -KILL "$server_pid"
  wait "$server_pid" 2>/dev/null || true
  wait "$writer" || fail "it ended with $?: $(cat summary.txt)"
  equals "$text" "$(cat out.txt)"
  contains "$(cat summary.txt)" 'moved 1 times'
done

# A server that comes back in the middle of the text is returned to. The text stands still while it starts; and the least
# memory makes passes here so slow that nobody would rather stay.
start --model target.gguf --listen 127.0.0.1:0
slow=$({ outrider run --server "$address" --draft draft.gguf --fallback target.gguf --memory 10MiB --prompt x 2>&1 >/dev/null || true; } |
  sed -n 's/.*the least that works is \([0-9]*\)MiB.*/\1/p')
long=(--prompt '' --max-tokens 450 --temperature 1 --seed 5 --stop 'never said')
long_text=$(outrider run --model target.gguf "${long[@]}" 2>/dev/null)
begin_text out.txt \
  "$OUTRIDER" run --server "$address" --draft draft.gguf --fallback target.gguf --memory $((slow + 2))MiB "${long[@]}" --verbose
kill -KILL "$server_pid"
wait "$server_pid" 2>/dev/null || true
written=$(stat -c %s out.txt)
for _ in $(seq 1000); do [ "$(stat -c %s out.txt)" -gt "$((written + 20))" ] && break; sleep 0.01; done
kill -STOP "$writer"
start --model target.gguf --listen "$address"
kill -CONT "$writer"
wait "$writer" || fail "it ended with $?: $(cat summary.txt)"
equals "$long_text" "$(cat out.txt)"
contains "$(cat summary.txt)" 'moved 2 times'
kill -KILL "$server_pid"
wait "$server_pid" 2>/dev/null || true

# Nobody is there from the beginning: the address is one that a server had.
equals "$text" "$(write --fallback target.gguf --memory "$memory")"
contains "$(cat summary.txt)" 'flash: '

# Where all is well the text is written wherever it is sooner.
start --model target.gguf --listen 127.0.0.1:0
equals "$text" "$(write --fallback target.gguf --memory "$memory")"

# --local is this machine, whatever the environment says.
export OUTRIDER_SERVER=$address
local_text=$(outrider run --local --target target.gguf --draft draft.gguf "${setting[@]}" 2>/dev/null)
equals "$text" "$local_text"
equals "$text" "$(outrider run --local --fallback target.gguf --draft draft.gguf --memory "$memory" "${setting[@]}" 2>/dev/null)"
fails 2 'there is no target on this machine' outrider run --local --draft draft.gguf --prompt x
unset OUTRIDER_SERVER
fails 2 'is needed, and not both' outrider run --draft draft.gguf --prompt x
fails 2 'is needed, and not both' outrider run --model target.gguf --server "$address" --prompt x
fails 2 '--fallback requires --server' outrider run --model target.gguf --fallback target.gguf --prompt x

# What cannot go on with the server's text is refused before it begins; another quantisation says so when it does.
there() { timeout 60 "$OUTRIDER" run --server "$address" --draft draft.gguf --prompt x --max-tokens 5 "$@"; }
fails 1 'take a copy of the server' there --fallback "$DATA/models/llama"
fails 1 'missing.gguf: ' there --fallback missing.gguf
fails 1 'the least that works is' there --fallback target.gguf --memory 10MiB
fails 1 'cannot go on here; take' timeout 60 "$OUTRIDER" run --server "$address" --place target --tokenizer draft.gguf --fallback target.gguf --prompt x
begin_text out.txt outrider run --server "$address" --draft draft.gguf --fallback stories.gguf "${setting[@]}"
kill -KILL "$server_pid"
wait "$server_pid" 2>/dev/null || true
wait "$writer" || fail "it ended with $?: $(cat summary.txt)"
contains "$(cat summary.txt)" 'the session has moved from numerics id'
equals 1 "$(grep -c 'has moved from numerics id' summary.txt)"
