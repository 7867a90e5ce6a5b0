"""Golden renderings of chat templates, by the code of transformers itself.

    python tests/golden/chat_templates.py tests/data/chat_templates

Made with: pip transformers 5.23.0, jinja2 3.1.6, tokenizers 0.23.3; TZ does not matter.

Reads *.jinja there and writes
    conversations.json    by name, what apply_chat_template is called with
    rendered.jsonl        template and conversation -> "text", or "error"; "prompt" is what
                          add_generation_prompt adds ("prompted": the whole text, where that is no suffix)
    micro.jsonl           small template sources (jinja_cases.py), each with its "text" or "error", or "refused"
    micro_variables.json  what those are given
The clock stands still at NOW. An error is recorded by its message; only those a template raises itself are ours to repeat
word by word, and have "raised" beside them.
"""

import datetime
import json
import pathlib
import sys

import jinja2
from jinja_cases import REFUSED, SOURCES, VARIABLES
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

NOW = (2024, 7, 26, 9, 5, 3, 4567)

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather.\nAt \"any\" <place> & time — też po polsku.",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "The city"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "default": 1},
                "points": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": ["number", "null"]}}},
                },
            },
            "required": ["location"],
        },
        "return": {"type": "string"},
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {}}}}
COHERE_TOOL = {
    "name": "search",
    "description": "Looks things up",
    "parameter_definitions": {
        "query": {"description": "what", "type": "str", "required": True},
        "limit": {"description": "how many", "type": "int"},
    },
}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(name, arguments, identifier="abcdef123"):
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


TOOL_TURNS = [
    user("What's the weather in Łódź?"),
    assistant(None, tool_calls=[call("get_weather", {"location": "Łódź", "unit": "celsius", "days": 2, "p": [1.5, True, None]})]),
    {"role": "tool", "name": "get_weather", "tool_call_id": "abcdef123", "content": '{"temp": 21.5}'},
    assistant("It is 21.5 °C."),
    user("And in Paris?"),
]

CONVERSATIONS = {
    "user": {"messages": [user("Hello")]},
    "system_user": {"messages": [system("You are terse."), user("Hello")]},
    "multi_turn": {"messages": [user("Hi"), assistant("Hello! How can I help?"), user("Tell me a joke."), assistant("No."), user("Please?")]},
    "system_multi_turn": {"messages": [system("Be kind."), user("Hi"), assistant("Hello!"), user("Bye")]},
    "ends_with_assistant": {"messages": [user("Hi"), assistant("Hello!")]},
    "not_alternating": {"messages": [user("Hi"), user("Are you there?")]},
    "assistant_first": {"messages": [assistant("Welcome!"), user("Hi")]},
    "only_system": {"messages": [system("Alone.")]},
    "system_in_the_middle": {"messages": [user("Hi"), system("Now be rude."), user("So?")]},
    "unknown_role": {"messages": [user("Hi"), {"role": "stop", "content": "here"}, user("never")]},
    "blanks": {"messages": [system("  \n padded \t"), user("\n\n  leading and trailing  \n"), assistant("  indented\n\tcode\n  "), user("\u00a0nbsp\u2003em ")]},
    "empty": {"messages": [system(""), user(""), assistant(""), user("")]},
    "unicode": {"messages": [user("Grüße, 世界! 👩‍👩‍👧 שלום e\u0301 \u0000 \u200b"), assistant("ﬀ ẞ İ Ω ΑΣ"), user("½ ² 𝕏")]},
    "markup": {"messages": [system("<b>&amp;</b>"), user("{{ 1 }} {% raw %} <|im_end|> [INST] <<SYS>> \\n 'quoted' \"twice\""), assistant("</s>"), user("#")]},
    "null_content": {"messages": [user("Hi"), assistant(None), user("?")]},
    "missing_content": {"messages": [user("Hi"), {"role": "assistant"}, user("?")]},
    "parts": {"messages": [user([{"type": "image"}, {"type": "text", "text": " What is this? "}, {"type": "text", "text": "b"}])]},
    "system_parts": {"messages": [system([{"type": "text", "text": "Look."}]), user([{"type": "text", "text": "At what?"}])]},
    "thinking_inside": {"messages": [user("2+2?"), assistant("<think>\nEasy.\n</think>\n\n4"), user("3+3?"), assistant("<think>\n\nHm\n</think>\n6\n")]},
    "reasoning_content": {"messages": [user("2+2?"), assistant("4", reasoning_content="\nEasy.\n"), user("3+3?"), assistant("6", reasoning="Hm"), user("?")]},
    "tools": {"messages": TOOL_TURNS, "tools": [WEATHER, CLOCK]},
    "tools_system": {"messages": [system("Use tools."), user("Weather?")], "tools": [WEATHER]},
    "tools_in_system": {"messages": [system("Use tools."), user("Weather?")], "tools": [WEATHER], "extra": {"tools_in_user_message": False}},
    "tool_turns_without_tools": {"messages": TOOL_TURNS[:3]},
    "two_calls": {
        "messages": [
            user("Both"),
            assistant("Let me see.", tool_calls=[call("clock", {}, "id0000001"), call("get_weather", '{"location": "Oslo"}', "id0000002")]),
            {"role": "tool", "name": "clock", "tool_call_id": "id0000001", "content": "noon"},
            {"role": "tool", "name": "get_weather", "tool_call_id": "id0000002", "content": "rain"},
        ],
        "tools": [CLOCK],
    },
    "bad_call_id": {"messages": [user("x"), assistant("", tool_calls=[call("clock", {}, "short")])], "tools": [CLOCK]},
    "builtin_tools": {
        "messages": [user("x"), assistant("", tool_calls=[call("brave_search", {"query": "llama", "lang": "en"})]), {"role": "ipython", "content": {"out": [1, 2.0]}}],
        "extra": {"builtin_tools": ["brave_search", "code_interpreter"]},
    },
    "no_tools": {"messages": [user("x")], "tools": []},
    "cohere_tools": {"messages": [system("Search."), user("x")], "tools": [COHERE_TOOL, {**COHERE_TOOL, "name": "none", "parameter_definitions": {}}]},
    "documents": {
        "messages": [user("Which?")],
        "documents": [{"title": "One", "text": "First.\n"}, {"title": "Two", "text": "Zweites — 2", "score": 0.5}],
        "extra": {"citation_mode": "accurate"},
    },
    "controls": {"messages": [user("Which?")], "documents": [{"text": "a"}], "extra": {"controls": {"length": "short", "citations": True}}},
    "date": {"messages": [user("When?")], "extra": {"date_string": "01 Jan 2025"}},
    "no_thinking": {"messages": [user("Quick!")], "extra": {"enable_thinking": False}},
    "thinking": {"messages": [user("Slow!")], "extra": {"enable_thinking": True, "thinking": True}},
}


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(*NOW)


def make_tokenizer():
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0}, unk_token="a")), bos_token="<s>", eos_token="</s>")


def render(tokenizer, source, conversation, generate):
    # Rendering must not change what we go on to store.
    arguments = json.loads(json.dumps(conversation))
    try:
        text = tokenizer.apply_chat_template(
            arguments["messages"],
            tools=arguments.get("tools"),
            documents=arguments.get("documents"),
            chat_template=source,
            add_generation_prompt=generate,
            tokenize=False,
            **arguments.get("extra", {}),
        )
        text.encode("utf-8")  # half a surrogate pair is no text
        return {"text": text}
    except jinja2.exceptions.TemplateError as error:
        raised = type(error) is jinja2.exceptions.TemplateError
        return {"error": str(error), **({"raised": True} if raised else {})}
    except Exception as error:  # whatever Python makes of a template's mistake
        return {"error": f"{type(error).__name__}: {error}"}


def render_both(tokenizer, source, conversation):
    """Without and with a generation prompt, which nearly always is a suffix."""
    plain, prompted = (render(tokenizer, source, conversation, generate) for generate in (False, True))
    if plain == prompted:
        return plain
    if "text" not in plain or "text" not in prompted:
        sys.exit(f"only one of the two renderings fails: {plain} {prompted}")
    if prompted["text"].startswith(plain["text"]):
        return {**plain, "prompt": prompted["text"][len(plain["text"]) :]}
    return {**plain, "prompted": prompted["text"]}


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def main():
    folder = pathlib.Path(sys.argv[1])
    chat_template_utils.datetime = FixedClock
    tokenizer = make_tokenizer()
    (folder / "conversations.json").write_text(
        json.dumps(CONVERSATIONS, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )
    rows = []
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for name, conversation in CONVERSATIONS.items():
            rows.append({"template": path.stem, "conversation": name, **render_both(tokenizer, source, conversation)})
    write_lines(folder / "rendered.jsonl", rows)
    conversation = {"messages": [user("Hi")], "extra": VARIABLES}
    micro = [{"source": source, **render(tokenizer, source, conversation, False)} for source in SOURCES]
    micro += [{"source": source, "refused": True} for source in REFUSED]
    write_lines(folder / "micro.jsonl", micro)
    (folder / "micro_variables.json").write_text(json.dumps(VARIABLES, ensure_ascii=False) + "\n", encoding="utf-8")
    print(len(rows), "renderings,", sum("error" in row for row in rows), "of them errors;", len(micro), "micro cases")


if __name__ == "__main__":
    main()
