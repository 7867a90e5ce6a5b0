# Sourced by the tests beside it. Each gets OUTRIDER (the binary), TOOLS (the test tools) and an empty directory WORK.
set -euo pipefail
OUTRIDER=$1 TOOLS=$2 WORK=$3 DATA=$4
rm -rf "$WORK" && mkdir -p "$WORK" && cd "$WORK"
"$TOOLS/llama2c_to_gguf" "$DATA/models/stories260k/stories260K.bin" "$DATA/models/stories260k/tok512.bin" stories.gguf

outrider() { "$OUTRIDER" "$@"; }

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# equals EXPECTED ACTUAL
equals() { [ "$1" = "$2" ] || fail "expected: $1"$'\n'"  actual: $2"; }

# contains TEXT PART
contains() { [[ "$1" == *"$2"* ]] || fail "no \"$2\" in: $1"; }

# ends_at TOKENS COMMAND...: writes to out.txt until its context of so many is full, says so, and fails.
ends_at() {
  local tokens=$1 status=0
  shift
  "$@" >out.txt || status=$?
  equals 1 "$status"
  contains "$(tail -1 summary.txt)" "outrider: the context of $tokens tokens is full"
}

# fails CODE MESSAGE COMMAND...: exits with CODE, prints MESSAGE somewhere on standard error and nothing on standard
# output; a failure (1) is one line.
fails() {
  local code=$1 message=$2 status=0
  shift 2
  "$@" >out.txt 2>err.txt </dev/null || status=$?
  equals "$code" "$status"
  contains "$(cat err.txt)" "$message"
  [ "$code" -ne 1 ] || equals 1 "$(wc -l <err.txt)"
  [ ! -s out.txt ] || fail "wrote to standard output: $(cat out.txt)"
}

# begin_text FILE COMMAND...: starts what writes a text to FILE, as $writer, and comes back when it has begun or ended.
# What it says otherwise is in summary.txt.
begin_text() {
  local file=$1
  shift
  rm -f "$file"  # a text of before is not its
  "$@" >"$file" 2>summary.txt &
  writer=$!
  until [ -s "$file" ] || ! kill -0 "$writer" 2>/dev/null; do sleep 0.01; done
}

server=$(dirname "$OUTRIDER")/outrider-server

# start FLAGS...: starts a server, and sets address and server_pid
start() {
  rm -f server.log
  "$server" "$@" 2>server.log &
  server_pid=$!
  for _ in $(seq 600); do
    address=$(sed -n 's/^serving .* on //p' server.log 2>/dev/null) || true
    [ -z "$address" ] || return 0
    sleep 0.05
  done
  cat server.log
  fail 'the server did not start'
}
