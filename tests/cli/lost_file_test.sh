. "$(dirname "$0")/lib.sh"

# A model whose file another program cuts off while it is read ends a program with a sentence, wherever it has come to by then.
"$TOOLS/random_model" 100m q8_0 whole.gguf
server=$(dirname "$OUTRIDER")/outrider-server

# Neither look takes a process of its own: what is looked for does not last.
# has_open PROCESS FILE: now.
has_open() {
  local descriptor
  for descriptor in "/proc/$1/fd/"*; do [ "$descriptor" -ef "$2" ] && return 0; done
  return 1
}

# A server that serves has read all of its model.
serves() {
  local line
  [ -e err.txt ] || return 1
  while read -r line; do [[ "$line" != serving* ]] || return 0; done <err.txt
  return 1
}

# cut_off LATER COMMAND...: its exit code, with cut.gguf cut to a page so many seconds after it was opened.
cut_off() {
  local later=$1 status=0
  shift
  cp whole.gguf cut.gguf
  rm -f err.txt
  "$@" >out.txt 2>err.txt </dev/null &
  local program=$!
  until has_open "$program" cut.gguf || ! kill -0 "$program" 2>/dev/null || serves; do :; done
  sleep "$later"
  truncate -s 4096 cut.gguf
  # A server that had all it needs serves until it is told to stop.
  (sleep 2 && kill -TERM "$program") 2>/dev/null &
  local patience=$!
  wait "$program" || status=$?
  kill "$patience" 2>/dev/null || true
  echo "$status"
}

# survives COMMAND...: once at least it was in the middle.
survives() {
  local later status sentences=0
  for later in 0 0.01 0.02 0.03 0.05 0.1 0.2; do
    status=$(cut_off "$later" "$@")
    case "$status" in
      0 | 143) ;;  # it had all of it
      1)
        contains "$(tail -1 err.txt)" cut.gguf
        ! grep -q 'cannot be read at offset [0-9]*: the file has become shorter' err.txt || sentences=$((sentences + 1))
        ;;
      *) fail "cut off after $later s, $1 ended with $status: $(cat err.txt)" ;;
    esac
  done
  [ "$sentences" -gt 0 ] || fail "$* was never in the middle of its model"
}

survives "$OUTRIDER" run --model cut.gguf --prompt '' --max-tokens 4 --threads 1 --context 64
survives "$OUTRIDER" convert cut.gguf --type q4_0 --out converted.gguf
survives "$server" --model cut.gguf --listen 127.0.0.1:0 --threads 1 --context 64
