. "$(dirname "$0")/lib.sh"

# A target on libtorch: other arithmetic, the same text.
serve() { "$@" --model stories.gguf --listen 127.0.0.1:0 --threads 1; }
on() { serve timeout 60 "$server" --device "$@"; }
fails 2 'gpu is none of cpu, cuda, cuda:N, torch, torch:cuda, torch:cuda:N' on gpu
fails 2 'cuda:x is none of cpu' on cuda:x
# No GPU, no driver, or a build without: a sentence each.
fails 1 '' on cuda:99
grep -Eq 'no GPU support|no NVIDIA|GPUs, counted from 0|CUDA' err.txt || fail "$(cat err.txt)"
fails 2 'torch:cuda: is none of cpu' on torch:cuda:
fails 1 '' on torch:cuda:99
if grep -q 'no libtorch' err.txt; then
  contains "$(cat err.txt)" 'install it (deploy/install-packages trainers) and build again'
  exit 0
fi
contains "$(cat err.txt)" 'cuda:99'
fails 1 'ask for 512 at most' on torch --context 513

write() { outrider run --server "$address" --prompt '' --max-tokens 200 --verbose "$@" 2>summary.txt; }
numerics_id() { sed -n 's/.*(numerics id \(.*\)) on .*/\1/p' server.log; }
trap 'kill "$server_pid" 2>/dev/null || true' EXIT
serve start
on_cpu=$(numerics_id)
kill "$server_pid"
wait "$server_pid"
! grep -q 'rounds differently' server.log || fail 'our own arithmetic does not depend on the batch'

OUTRIDER_DEVICE=torch serve start
[ "$(numerics_id)" != "$on_cpu" ] || fail 'libtorch has a numerics id of its own'
expected=$(cat "$DATA/models/stories260k/expected_greedy_200.txt")
equals "$expected" "$(write --draft stories.gguf --policy chain)"
contains "$(cat summary.txt)" "numerics id $(numerics_id)"
# Two at a time, which share batches.
write --draft stories.gguf >first.txt &
first=$!
equals "$expected" "$(write --draft ngram --tokenizer stories.gguf)"
wait "$first" || fail "$(cat summary.txt)"
equals "$expected" "$(cat first.txt)"
kill -TERM "$server_pid"
wait "$server_pid" || fail "the server ended with $?"
contains "$(cat server.log)" "tokens may differ where two are all but equally likely"
