. "$(dirname "$0")/lib.sh"

# A target behind a socket: whatever drafts for it, the text is what the target alone writes.
serve() { start --model stories.gguf --listen 127.0.0.1:0 "$@"; }
killed() {
  kill -KILL "$server_pid"
  wait "$server_pid" 2>/dev/null || true
}
trap 'kill "$server_pid" 2>/dev/null || true' EXIT

write() { outrider run "$@" --prompt 'Once upon a time' --max-tokens 80 2>summary.txt; }

serve
greedy=$(write --model stories.gguf)
sampled=$(write --model stories.gguf --temperature 0.9 --top-p 0.95 --seed 7)
for policy in chain fsd llmcad edgellm lever awaited ours auto; do
  equals "$greedy" "$(write --server "$address" --draft stories.gguf --policy $policy)"
  equals "$sampled" "$(write --server "$address" --draft stories.gguf --policy $policy --temperature 0.9 --top-p 0.95 --seed 7)"
done
contains "$(cat summary.txt)" 'passes: '
for draft in ngram stories.gguf; do
  equals "$greedy" "$(write --server "$address" --draft $draft --tokenizer stories.gguf)"
  equals "$sampled" "$(write --server "$address" --draft $draft --tokenizer stories.gguf --temperature 0.9 --top-p 0.95 --seed 7)"
done
write --server "$address" --draft stories.gguf --verbose >/dev/null
contains "$(cat summary.txt)" "stories260k at $address: numerics id "
contains "$(cat summary.txt)" 'a token took '

# A sentence and an end, never a hang.
fails 1 'choose another (--listen)' timeout 60 "$server" --model stories.gguf --listen "$address"
fails 1 'choose another (--listen)' timeout 60 "$server" --model stories.gguf --insecure --listen "0.0.0.0:${address##*:}"
fails 1 'or say --insecure' timeout 60 "$server" --model stories.gguf --listen 0.0.0.0:0
fails 1 'give host:port' timeout 60 "$server" --model stories.gguf --listen nowhere
fails 1 'give host:port' timeout 60 "$server" --model stories.gguf --listen 127.0.0.1:70000
fails 1 'missing.gguf: ' timeout 60 "$server" --model missing.gguf
fails 1 'has no tokenizer' timeout 60 "$server" --model "$DATA/models/t5"
fails 1 'ask for 512 at most' timeout 60 "$server" --model stories.gguf --context 513
fails 1 'the least is' timeout 60 "$server" --model stories.gguf --kv-memory 1KiB
fails 1 'the least is' timeout 60 "$OUTRIDER" run --model stories.gguf --kv-memory 1KiB --prompt x
fails 2 '--kv-memory' timeout 60 "$server" --model stories.gguf --kv-memory lots
there() { timeout 60 "$OUTRIDER" run --server "$address" "$@"; }
fails 1 'use a draft of the same family' there --draft "$DATA/models/llama" --prompt x
fails 1 'use a draft of the same family' there --draft ngram --tokenizer "$DATA/models/llama" --prompt x
fails 1 'take a draft of the same family' there --draft stories.gguf --tokenizer "$DATA/models/llama" --prompt x
fails 1 'is more than the 512 that the verifier' there --draft stories.gguf --prompt x --context 513
fails 1 'does not fit into a context of 3' there --draft stories.gguf --prompt 'Once upon a time' --context 3
fails 1 'no chat template' there --draft stories.gguf --chat

# A context that is full ends the text: what there is of it stays.
full() { there --draft stories.gguf --prompt 'Once upon a time' "$@" 2>summary.txt; }
ends_at 24 full --context 24
equals "$(outrider run --model stories.gguf --prompt 'Once upon a time' --max-tokens 20 2>/dev/null)" "$(cat out.txt)"

# Asked to stop with nobody attached, it is gone at once.
kill -TERM "$server_pid"
wait "$server_pid" || fail "the server ended with $?"
fails 1 'cannot reach a verifier' there --draft stories.gguf --prompt 'Once' --max-tokens 4

# So it is while it loads its model, however much of that is left: this one is asked before it begins.
env --block-signal=TERM bash -c 'kill -TERM $$; exec "$@"' - "$server" --model stories.gguf --listen 127.0.0.1:0 \
  2>loading.txt || fail "a server that was loading ended with $?"
contains "$(cat loading.txt)" 'ended before the model was loaded'

# A flag is as good from the environment; 0.0.0.0 is every address of this machine, and a chat is the same chat.
OUTRIDER_MODEL=$DATA/models/llama OUTRIDER_LISTEN=0.0.0.0:0 OUTRIDER_INSECURE=true OUTRIDER_CONTEXT=100 OUTRIDER_SESSIONS=3 OUTRIDER_PASS_NODES=5 \
  OUTRIDER_THREADS=1 OUTRIDER_ISA=scalar OUTRIDER_DRAIN_SECONDS=7 start
contains "$address" '0.0.0.0:'
address=127.0.0.1:${address##*:}
chat() { printf 'Hello there\nAnd again\n' | outrider run --chat --max-tokens 8 --verbose "$@" 2>summary.txt; }
text=$(chat --model "$DATA/models/llama")
equals "$text" "$(chat --server "$address" --draft "$DATA/models/llama")"
contains "$(cat summary.txt)" 'context 100'
long_chat() { yes 'Hello there' | there --draft "$DATA/models/llama" --chat --max-tokens 8; }
status=0
long_chat >out.txt 2>summary.txt || status=$?
equals 1 "$status"
contains "$(cat summary.txt)" 'does not fit into a context of 100'
[ -s out.txt ] || fail 'what was said before is lost'
kill -TERM "$server_pid"
wait "$server_pid" || fail "the server ended with $?"
contains "$(cat server.log)" 'sessions have 7 s left'

# A device that goes on holds up the end; a second signal does not wait for it.
serve --isa scalar --threads 1
long() { outrider run "$@" --prompt 'Once upon a time' --max-tokens 400; }
begin_long() {  # without $writer the server writes nothing
  begin_text late.txt "$OUTRIDER" run --server "$address" --draft stories.gguf --policy chain --spec-dry wait \
    --prompt 'Once upon a time' --max-tokens 400
}
begin_long
kill -STOP "$writer"
kill -TERM "$server_pid"
sleep 0.3
kill -TERM "$server_pid"
status=0
wait "$server_pid" || status=$?
equals 1 "$status"
contains "$(cat server.log)" 'ended before all sessions had'
kill -KILL "$writer"
wait "$writer" 2>/dev/null || true

# Killed in the middle of a text, and another in its place: the device goes on where it was.
text=$(long --model stories.gguf 2>/dev/null)
serve
begin_long
killed
start --model stories.gguf --listen "$address"
wait "$writer" || fail "the device gave up: $(cat summary.txt)"
equals "$text" "$(cat late.txt)"

# One with another model, or with less room, ends the text with a sentence.
begin_long
killed
start --model "$DATA/models/llama" --listen "$address"
! wait "$writer" || fail 'another model wrote on'
contains "$(tail -1 summary.txt)" 'use a draft of the same family'
contains "$text" "$(cat late.txt)"
killed
serve
begin_long
killed
start --model stories.gguf --listen "$address" --context 60
! wait "$writer" || fail 'there was no room for so much'
contains "$(tail -1 summary.txt)" '60'
contains "$text" "$(cat late.txt)"
