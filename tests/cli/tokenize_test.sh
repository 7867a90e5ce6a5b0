. "$(dirname "$0")/lib.sh"

text='Once upon a time, there was a robot.'
ids=$(outrider tokenize stories.gguf "$text")
equals "$text" "$(outrider detokenize stories.gguf $ids)"
equals "$text" "$(outrider detokenize stories.gguf <<<"$ids")"
equals "$ids" "$(printf %s "$text" | outrider tokenize stories.gguf)"
equals "1 $(outrider tokenize stories.gguf --no-bos "$text")" "$ids"

# What the vocabulary lacks becomes bytes, and comes back whole.
equals 'naïve 🤖' "$(outrider detokenize stories.gguf $(outrider tokenize stories.gguf 'naïve 🤖'))"

contains "$(outrider tokenize stories.gguf --pieces "$text")" $'1\t"<s>"'
equals 2 "$(outrider tokenize stories.gguf --no-bos '</s>' | tr ' ' '\n' | grep -x 2)"
[ "$(outrider tokenize stories.gguf --no-bos --plain '</s>')" != 2 ] || fail '--plain let a special token through'

fails 1 'token 512 is outside' outrider detokenize stories.gguf 512
fails 1 '"x" is not a token id' bash -c "echo x | '$OUTRIDER' detokenize stories.gguf"
fails 1 'expected a .gguf file' outrider tokenize "$0" x
