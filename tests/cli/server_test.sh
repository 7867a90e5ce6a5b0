. "$(dirname "$0")/lib.sh"
"$TOOLS/damaged_model" stories.gguf 0.1 damaged.gguf

# A target behind a socket: whatever drafts for it, the text is what the target alone writes.
server=$(dirname "$OUTRIDER")/outrider-server

serve() {  # sets address and server_pid
  "$server" --model stories.gguf --listen 127.0.0.1:0 "$@" 2>server.log &
  server_pid=$!
  for _ in $(seq 100); do
    address=$(sed -n 's/^serving .* on //p' server.log)
    [ -z "$address" ] || return 0
    sleep 0.1
  done
  cat server.log
  fail 'the server did not start'
}
trap 'kill "$server_pid" 2>/dev/null || true' EXIT

write() { outrider run "$@" --prompt 'Once upon a time' --max-tokens 80 2>summary.txt; }

serve
greedy=$(write --model stories.gguf)
sampled=$(write --model stories.gguf --temperature 0.9 --top-p 0.95 --seed 7)
for policy in chain fsd llmcad edgellm lever awaited ours; do
  for draft in stories damaged; do
    equals "$greedy" "$(write --server "$address" --draft $draft.gguf --policy $policy)"
    equals "$sampled" "$(write --server "$address" --draft $draft.gguf --policy $policy --temperature 0.9 --top-p 0.95 --seed 7)"
  done
done
grep -q 'passes: ' summary.txt || fail 'the summary does not count passes'

# A sentence and an end, never a hang.
fails 1 'choose another (--listen)' timeout 60 "$server" --model stories.gguf --listen "$address"
fails 1 'give host:port' timeout 60 "$server" --model stories.gguf --listen nowhere
fails 1 'missing.gguf: ' timeout 60 "$server" --model missing.gguf

# Asked to stop with nobody attached, it is gone at once.
kill -TERM "$server_pid"
wait "$server_pid" || fail "the server ended with $?"
fails 1 'cannot reach a verifier' outrider run --server "$address" --draft stories.gguf --prompt 'Once' --max-tokens 4

# Killed in the middle of a text, and another in its place: the device goes on where it was.
serve
long() { outrider run "$@" --prompt 'Once upon a time' --max-tokens 400 2>summary.txt; }
text=$(long --model stories.gguf)
long --server "$address" --draft stories.gguf --policy chain >late.txt &
writer=$!
while [ ! -s late.txt ] && kill -0 "$writer"; do sleep 0.01; done
kill -KILL "$server_pid"
wait "$server_pid" 2>/dev/null || true
"$server" --model stories.gguf --listen "$address" 2>server.log &
server_pid=$!
wait "$writer" || fail "the device gave up: $(cat summary.txt)"
equals "$text" "$(cat late.txt)"
