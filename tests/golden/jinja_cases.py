"""Small templates, one construct each: what chat_templates.py renders beside whole chat templates.

SOURCES are rendered with VARIABLES. A template that must fail is as welcome as one that must
not.
"""

VARIABLES = {
    "s": "Hello World",
    "u": "żółć 世界 👍",
    "n": 7,
    "f": 2.5,
    "t": True,
    "nothing": None,
    "empty": [],
    "l": [3, 1, 2],
    "words": ["banana", "Apple", "cherry", "apple"],
    "d": {"b": 2, "a": 1, "C": [1, {"x": "y"}]},
    "users": [
        {"name": "Ann", "age": 30, "tags": ["x"], "home": {"city": "Oslo"}},
        {"name": "bob", "age": 25, "tags": [], "home": {"city": "Rome"}},
        {"name": "Cyd", "age": 30, "home": {"city": "oslo"}},
    ],
}

EXPRESSIONS = r"""
1 + 2 * 3
(1 + 2) * 3
7 / 2
6 / 2
7 // 2
-7 // 2
7 // -2
7 % 3
-7 % 3
7 % -3
7.5 // 2
-7.5 % 2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
2 ** 0.5
1e3
1.5e-7
1e16
1e15
123456789012345680.0
0.1 + 0.2
1 / 3
100.0
-0.0
1_000
0x1F
0b101
0o17
9223372036854775807
-9223372036854775807 - 1
1 / 0
1 // 0
1 % 0
1.0 / 0
0 ** -1
"a" + "b"
"a" + 1
"a" ~ 1 ~ none ~ true ~ 1.0
"a" * 3
3 * "ab"
"a" * -1
"a" * 1000000000000
[1] * 3
[1] + [2]
(1,) + (2,)
[1] + (2,)
l + [n]
"a" "b" 'c'
'a\n\t\\\'\"b'
"\x41\u00e9\U0001F44D\101\0z"
"\q\w"
"\é"
'it''s'
true and false
true or undefinedthing
0 or "x"
"" or [] or {}
1 and 2
not 1
not not ""
not undefinedthing
1 < 2 < 3
1 < 3 < 2
1 == 1.0
1 == true
"1" == 1
[1, 2] == [1, 2]
(1, 2) == [1, 2]
{"a": 1} == {"a": 1.0}
{"a": 1, "b": 2} == {"b": 2, "a": 1}
none == undefinedthing
undefinedthing == otherthing
1 != 2
"a" < "b"
"Z" < "a"
[1, 2] < [1, 3]
[1] < [1, 0]
(1, "a") < (1, "b")
1 < "a"
none < 1
undefinedthing < 1
1 < undefinedthing
9007199254740993 == 9007199254740992.0
9007199254740993 > 9007199254740992.0
"b" in "abc"
"" in "abc"
1 in [1, 2]
1 in "abc"
"a" in d
"z" not in d
not "z" in d
2 in l
"x" in undefinedthing
"x" in none
1 in 5
n if t else f
n if not t
(n if not t) is defined
1 if 0 else 2 if 0 else 3
undefinedthing
undefinedthing.x
undefinedthing["x"]
undefinedthing + 1
undefinedthing()
none.x
none["x"]
s.x
s.x.y
5 .x
d.a
d["a"]
d.C[1].x
d.C.1.x
d["zz"]
d.zz
d.zz.y
d.get("a")
d.get("zz")
d.get("zz", 5)
d.get("zz", none)
d.keys() | list
d.values() | list
d.items() | list
d.items()
d.keys()
d.values()
d.items() | length
d.copy()
d.pop("a")
d.update({})
d.pop
d["clear"]
d.__class__
s.__class__
s["__class__"]
s["upper"]()
s._x
l.append(4)
l.append
l.index(1)
l.index(9)
l.count(3)
l.copy()
l[0]
l[-1]
l[3]
l[-4]
l["a"]
l[true]
l[1.0]
l.0
l[1:]
l[:1]
l[:-1]
l[::-1]
l[::2]
l[5:]
l[-2:]
l[1:3:1]
l[3:0:-1]
l[-100:100]
l[100:-100:-1]
l[::0]
l[none:none]
l["a":]
(1, 2, 3)[1:]
s[0]
s[-1]
s[100]
s[1:4]
s[::-1]
s[::2]
s[-5:]
u[0]
u[1:3]
u[-1]
u[::-1]
u[5:8]
u | length
d[1:]
undefinedthing[1:]
()
(1,)
(1, 2)
1, 2
[]
{}
[1, "a", none, true, 1.0, [2], (3,), {"k": "v"}]
{"a": 1, "b": [1, 2], 3: none, none: true, 1.5: "x"}
{1: "a", true: "b"}
{[1]: 2}
{(1, 2): 3}
["it's", 'say "x"', "both ' and \"", "a\nb\tc\\d\re", "\x00\x7f\u00a0\u200b\ue000é世👍"]
[undefinedthing]
"%s" | string
range(3)
range(3) | list
range(1, 10, 3) | list
range(5, 0, -2) | list
range(0)
range(1, 2, 3)
range(100001)
range(0, 10, 0)
range("a")
range()
range(1, 2, 3, 4)
range(3)[1]
range(3) | length
2 in range(3)
dict(a=1, b="x")
dict([("a", 1), ("b", 2)])
dict({"a": 1}, b=2)
dict([1])
namespace(a=1).a
namespace({"a": 2}, b=3).b
namespace(a=1).zz
namespace(_a=1)
raise_exception("Oh no: " ~ n)
raise_exception()
strftime_now("%Y-%m-%d %H:%M:%S.%f")
strftime_now("%d %b %Y, %A %B %j %p %I %y %% %e")
strftime_now("%-d.%-m. %Z%z|")
strftime_now("plain é")
s.upper()
s.lower()
s.swapcase()
"hello wORLD foo-bar it's".title()
"hello wORLD".capitalize()
"ß ŉ ǆ ﬁ".upper()
"ΑΣ Σ ΣΑ İ".lower()
"ßa ǆ".capitalize()
"ǆ ß ﬁ".title()
"  x \n\t".strip() ~ "|"
"\u00a0\u2003x\u3000\x1c\x1f".strip() ~ "|"
"xxaxx".strip("x")
"xyaxy".lstrip("yx")
"xyaxy".rstrip("yx") ~ "|"
"  a".lstrip() ~ "b  ".rstrip()
"abc".strip("")
"abc".strip(none)
"abc".strip(1)
"a b  c ".split()
"a b  c ".split(" ")
" a b  c ".split(none, 1)
"a,b,,c".split(",")
"a,b,,c".split(",", 2)
"a,b,,c".split(",", maxsplit=1)
"a,b,,c".rsplit(",", 1)
" a b  c ".rsplit(none, 1)
" a b ".rsplit(none, 0)
" a b ".split(none, 0)
"".split()
"".split(",")
"abc".split("")
"a<br>b<br>".split("<br>")
"a\nb\r\nc\rd\x0be\x1cf\u2028g\n".splitlines()
"a\nb\r\nc".splitlines(true)
"abc".startswith("a")
"abc".startswith(("x", "a"))
"abc".startswith(("x", "y"))
"abc".endswith("bc")
"abc".endswith("")
"abc".startswith("b", 1)
"abc".startswith(1)
"żółć".find("ć")
"abcabc".find("c", 3)
"abcabc".rfind("b")
"abc".find("z")
"abc".index("c")
"abc".index("z")
"abcabc".count("bc")
"abc".count("")
"aaaa".count("aa")
"abcabc".replace("b", "X")
"abcabc".replace("b", "X", 1)
"abc".replace("", "-")
"abc".replace("", "-", 2)
"żó".replace("", "-")
"abc".replace("b", "")
"abc".replace("b", 1)
"abc".replace("z", "y")
", ".join(["a", "b"])
"".join("abc")
",".join([1])
",".join(d)
",".join(5)
"abc".removeprefix("a").removesuffix("c")
"abc".removeprefix("x")
"a=b=c".partition("=")
"a=b=c".rpartition("=")
"abc".partition("=")
"abc".rpartition("=")
"abc".ljust(5) ~ "|"
"abc".rjust(5, "*")
"abc".center(6, "*")
"ab".center(5, "*")
"abc".center(2)
"-42".zfill(5)
"é".rjust(3, "世")
"abc".rjust(5, "xy")
"abc".rjust(99999999999)
"123".isdigit()
"12a".isdigit()
"".isdigit()
"abc".isalpha()
"ab1".isalnum()
" \n".isspace()
"abc".islower()
"aBC".isupper()
"ABC1".isupper()
"1".isupper()
"abc".nosuch()
"abc".upper(1)
s is string
n is string
n is number
t is number
f is float
n is integer
t is integer
t is boolean
n is boolean
t is true
n is true
t is false
false is false
nothing is none
nothing is not none
none is none
undefinedthing is defined
undefinedthing is undefined
undefinedthing is not defined
n is defined
d.zz is defined
d.a is defined and d.a == 1
l is sequence
d is sequence
s is sequence
n is sequence
undefinedthing is sequence
range(3) is sequence
d is mapping
l is mapping
namespace() is mapping
l is iterable
s is iterable
n is iterable
d.items() is iterable
none is iterable
undefinedthing is iterable
n is odd
n is even
6 is even
2.0 is even
"a" is odd
n is divisibleby 7
n is divisibleby(2)
n is divisibleby 0
n is eq 7
n is equalto 7
none is sameas none
true is sameas true
l is sameas l
n is ne 7
n is gt 6
n is greaterthan 7
n is ge 7
n is lt 8
n is lessthan 7
n is le 7
n is in [7]
"H" is in s
"abc" is lower
"ABC" is upper
"Abc" is lower
range is callable
s.upper is callable
s is callable
undefinedthing is callable
"upper" is filter
"nosuch" is filter
"defined" is test
s is escaped
n is nosuchtest
n is string is string
n is not divisibleby 2
not n is divisibleby 2
n is defined and n is number or false
s is string and s is not none and n is number
s | upper
s | lower | upper | length
s|nosuchfilter
none | upper
5 | lower
undefinedthing | upper
"hello wORLD foo-bar (baz) it's x_y" | title
"ΑΣ ß" | lower
"hELLO" | capitalize
"  x  " | trim ~ "|"
"xxaxx" | trim("x")
none | trim
undefinedthing | trim ~ "|"
5 | trim
"abcabc" | replace("b", "X")
"abcabc" | replace("b", "X", 1)
"a1b" | replace(1, none)
none | replace("o", "0")
"abc" | replace("b")
undefinedthing | default("x")
undefinedthing | default
none | default("x")
none | default("x", true)
"" | d("x", boolean=true)
0 | default("x", true)
d.zz | default(d.a)
undefinedthing.x | default("y")
undefinedthing | default(default_value="k")
s | length
d | length
l | count
none | length
5 | length
undefinedthing | length
s | string
5 | string ~ "!"
1.0 | string
"42" | int
" 42 " | int
"42.9" | int
"-7" | int
"+7" | int
"1_000" | int
"abc" | int
"abc" | int(5)
"0x1A" | int(0, 16)
"1A" | int(base=16)
"0b11" | int(0, 2)
"1e3" | int
"inf" | int
"nan" | int
4.9 | int
-4.9 | int
true | int
none | int
none | int(9)
[] | int
undefinedthing | int
"3.5" | float
"abc" | float
"abc" | float(1.5)
" 1e3 " | float
".5" | float
"5." | float
"inf" | float
"-Infinity" | float
"nan" | float
"1_0.5" | float
"1__0" | float
"0x10" | float
"1e999" | float
none | float
3 | float
undefinedthing | float
-5 | abs
-5.5 | abs
"a" | abs
42.55 | round
42.55 | round(1)
42.55 | round(1, "floor")
42.55 | round(1, "ceil")
2.5 | round
3.5 | round
-2.5 | round
2.675 | round(2)
0.5 | round | int
5 | round
5 | round(1)
5 | round(1, "ceil")
1e300 | round(2)
"a" | round
2.5 | round(0, "other")
l | list
s | list
d | list
range(3) | list
none | list
5 | list
undefinedthing | list
l | first
l | last
s | first
s | last
u | last
d | first
d | last
empty | first
empty | last
empty | first | string ~ "|"
undefinedthing | first
undefinedthing | last
none | first
5 | last
range(3) | last
d.items() | first
l | join
l | join(", ")
words | join("|")
s | join("-")
d | join(",")
[1, none, "a", 2.0, [1]] | join(",")
users | join(", ", attribute="name")
users | join(", ", "home.city")
none | join
undefinedthing | join("x")
l | join(1)
d | items | list
undefinedthing | items | list
none | items | list
l | items | list
d | dictsort
d | dictsort(true)
d | dictsort(reverse=true)
{"a": 3, "b": 1} | dictsort(by="value")
{"a": 3, "b": "x"} | dictsort(by="value")
d | dictsort(by="other")
{1: 2, "a": 3} | dictsort
l | dictsort
l | sort
l | sort(reverse=true)
words | sort
words | sort(case_sensitive=true)
words | sort(true)
users | sort(attribute="age") | map(attribute="name") | list
users | sort(attribute="age,name") | map(attribute="name") | list
users | sort(attribute="home.city") | map(attribute="name") | list
users | sort(attribute="age", reverse=true) | map(attribute="name") | list
[1, "a"] | sort
[[2, 1], [1, 2]] | sort
[none, none] | sort
none | sort
words | unique | list
words | unique(true) | list
[1, 1.0, true, 2] | unique | list
users | unique(attribute="age") | map(attribute="name") | list
[[1], [1]] | unique | list
l | min
l | max
words | min
words | max
words | max(case_sensitive=true)
empty | min
empty | max | string ~ "|"
users | max(attribute="age")
[1, "a"] | max
l | sum
[0.5, 1] | sum
users | sum(attribute="age")
empty | sum
l | sum(start=10)
[[1], [2]] | sum(start=[])
words | sum
l | reverse | list
s | reverse
u | reverse
d | reverse | list
none | reverse
5 | reverse
l | map("string") | list
words | map("upper") | join(",")
words | map("replace", "a", "_") | list
words | map("replace", old="a", new="_") | list
users | map(attribute="name") | list
users | map(attribute="home.city") | list
users | map(attribute="tags") | list
users | map(attribute="tags", default="none") | list
users | map(attribute="tags.0", default="-") | list
users | map(attribute=0) | list
words | map("nosuch") | list
none | map("upper") | list
undefinedthing | map("upper") | list
5 | map("upper") | list
words | map("upper") | length
words | map("upper") | first
words | map("upper") | last
words | map("upper") | reverse
l | select | list
l | select("odd") | list
l | select("gt", 1) | list
[0, 1, "", "a", none] | select | list
[0, 1, "", "a", none] | reject | list
l | reject("odd") | list
l | select("nosuch") | list
users | selectattr("tags") | map(attribute="name") | list
users | selectattr("tags", "defined") | map(attribute="name") | list
users | rejectattr("tags", "defined") | map(attribute="name") | list
users | selectattr("age", "equalto", 30) | map(attribute="name") | list
users | selectattr("age", "==", 30) | list | length
users | selectattr("home.city", "in", ["Oslo", "Rome"]) | map(attribute="name") | list
users | rejectattr("age", "gt", 26) | map(attribute="name") | list
users | selectattr | list
none | selectattr("x") | list
users | selectattr("age", "gt", "x") | list
users | selectattr("name", "string") | list | length
(words | map("upper")) is iterable
(words | map("upper")) is sequence
"A" in (["a"] | map("upper"))
{"a": "<>&'\"é\n\u2028\x01/"} | tojson
d | tojson
d | tojson(indent=2)
d | tojson(2)
d | tojson(indent="\t")
d | tojson(indent=0)
[] | tojson(indent=2)
[[], {}, [[]]] | tojson(indent=1)
{"b": 1, "a": {"d": 1, "c": 2}} | tojson(sort_keys=true)
{"b": 1, 1: 2} | tojson(sort_keys=true)
d | tojson(separators=(",", ":"))
d | tojson(separators=[",", ": "], indent=1)
d | tojson(separators=",")
"é👍\x7f" | tojson(ensure_ascii=true)
"é👍\x7f" | tojson
1.0 | tojson
1e100 | tojson
"inf" | float | tojson
"nan" | float | tojson
none | tojson
true | tojson
(1, 2) | tojson
{1: 2, none: 3, true: 4, 1.5: 5} | tojson
{(1, 2): 3} | tojson
undefinedthing | tojson
range(3) | tojson
d.items() | tojson
d | tojson | length
s | tojson(nosuch=1)
"a\nb\n\nc" | indent
"a\nb\n\nc" | indent(2)
"a\nb\n\nc" | indent(2, true)
"a\nb\n\nc" | indent(2, blank=true)
"a\nb" | indent("> ", first=true)
"a\nb\n" | indent ~ "|"
"" | indent ~ "|"
5 | indent
undefinedthing | indent
"<b>&'\"" | e
"<b>" | escape | escape
"<b>" | safe
5 | safe
["<" | safe]
"<b>" | safe ~ "<i>"
"<b>" | safe | upper
"<b>" | e | length
"abc" | center(9) ~ "|"
s | upper()
s | upper(1)
s | trim(chars=" ")
loop
"a" if s == "Hello World" else "b"
s[n - 3:n - 1] ~ (n % 2)
[1, 2, 3,]
{"a": 1,}
s.split(" ", )
((1))
(((1, 2)))
-n
+n
-"a"
- -1
-undefinedthing
not n == 7
1 in l and 2 in l
s.split()[0].lower()[:2]
(l | sort)[0]
l|sort|first
"a" ~ "b" * 2
1 ~ 2 + 3
2 * 3 ~ 4
"x" * 2 ~ 1 == "xx1"
1 + 1 == 2 and 2 or 3
a.b.c is defined
d.zz.y is defined
d.get("zz", {}).get("y") is none
"a" == "a" == "a"
1 < 2 == true
[1, [2, [3, [4]]]]
{"a": {"b": {"c": 1}}}["a"].b["c"]
{"items": 1}["items"]
{"keys": 5}.keys() | list
s.split("o") | map("trim") | list
true | string | lower
s[:5] if s | length > 5 else s
dict(a=1).a
foo(1)
s(1)
5()
range(*[1, 3]) | list
dict(**{"a": 1, "b": 2})
dict(**5)
range(*5)
range(3, a=1)
s.split(sep="o")
s.split(sep="o", sep="l")
"a" < 1 if false else "ok"
u | upper
u | title
u | capitalize
"i̇ſK" | upper | lower
words | first | last
"abc" | list | reverse | join
users[0].home.city[0]
users | length > 2 and users[-1].name
users[::2] | map(attribute="name") | join("+")
{"a": 1} | length
{"a": undefinedthing}
{"a": undefinedthing}["a"] is defined
[1, 2, 3] | length - 1
l[l | length - 1]
messages[0].content
messages[0]["role"]
messages | length
tools is none
documents is none
add_generation_prompt
bos_token ~ eos_token
pad_token
""".strip("\n").split("\n")

STATEMENTS = [
    # Whitespace control
    "a\n{% if t %}\nb\n{% endif %}\nc",
    "a\n  {% if t %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%- if t %}\n  b\n  {%- endif %}\nc\n",
    "a\n  {% if t -%}\n  b\n  {% endif -%}\n  c\n",
    "a {% if t %} b {% endif %} c",
    "a\n  {%+ if t %}\n  b\n  {%+ endif %}\nc",
    "a\n  {% if t +%}\n  b\n  {% endif +%}\nc",
    "a\n  {{ n }}\n  b",
    "a\n  {{- n -}}\n  b",
    "a\n  {{+ n }}\n",
    "{{ -n }}{{-n}}",
    "x {#- c -#} y",
    "x\n  {# c #}\ny",
    "x\n  {#+ c +#}\ny",
    "x {# multi\nline #}\ny\n\n",
    "\n\nx\n\n",
    "x\r\ny\rz\r\n",
    "x\n",
    "x\n\n",
    "{% set x = 1 %}\n{{ x }}\n",
    "{% set x = 1 -%}\n\n  {{ x }}\n",
    "  {% set x = 1 %}  y",
    "  {% set x = 1 %}  \n  {% set y = 2 %}\nz",
    "{{ n }}\n{{ n }}\n",
    "{{ n }}{% if t %}\n\nx{% endif %}",
    "a\u00a0{%- if t %}b{% endif %}",
    "a\n\u00a0\t{% if t %}b{% endif %}",
    "{{ n -}}\n  {% if t %}x{% endif %}",
    "a -{{- n -}}- b",
    "{%- for i in l -%}\n {{ i }},\n{%- endfor -%}\n",
    "{% for i in l %}\n{{ i }}\n{% endfor %}\n",
    "<{% for i in l %} {{ i }} {% endfor %}>",
    # Raw and comments
    "{% raw %}{{ x }} {% if %}{# c #}{% endraw %}",
    "a\n  {% raw %}\n b {{ }}\n  {% endraw %}\nc",
    "a\n  {%- raw -%}\n b {{ }}\n  {%- endraw -%}\nc",
    "{% raw %}{% endraw %}x",
    "{%raw%}\n{%endraw%}\nx",
    "{% raw %}",
    "{# unclosed",
    "{# {{ n }} {% if %} #}x",
    "{#-#}x{##}",
    "{ { n } } {n} {%%} ",
    "{ {n} %} #} }}",
    # If
    "{% if n == 7 %}a{% elif n == 8 %}b{% else %}c{% endif %}",
    "{% if n == 8 %}a{% elif n == 7 %}b{% else %}c{% endif %}",
    "{% if n == 8 %}a{% elif n == 9 %}b{% elif t %}d{% else %}c{% endif %}",
    "{% if undefinedthing %}a{% else %}b{% endif %}",
    "{% if 1, 2 %}a{% endif %}",
    "{% if t: %}a{% endif %}",
    "{% if t %}a",
    "{% if %}a{% endif %}",
    "{% endif %}",
    "{% if t %}{% endfor %}",
    "{% else %}",
    "{% if t %}{% if not t %}a{% else %}b{% endif %}c{% endif %}",
    # For
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}",
    "{% for i in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for i in l %}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}",
    "{% for i in l %}{{ loop.cycle() }}{% endfor %}",
    "{% for i in l %}{{ loop.nosuch }}{% endfor %}",
    "{% for i in l %}{{ loop['index'] }}{{ loop['length'] }}{% endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}",
    "{% for i in l %}x{% else %}none{% endfor %}",
    "{% for i in undefinedthing %}x{% else %}none{% endfor %}",
    "{% for i in none %}x{% endfor %}",
    "{% for i in 5 %}x{% endfor %}",
    "{% for c in u %}{{ c }}.{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for k, v in d|dictsort %}{{ loop.index }}{{ k }}{% endfor %}",
    "{% for (a, (b, c)) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}",
    "{% for a, b in [[1]] %}{{ a }}{% endfor %}",
    "{% for a, b in ['xy', 'zw'] %}{{ a }}{{ b }} {% endfor %}",
    "{% for i in 1, 2 %}{{ i }}{% endfor %}",
    "{% for i in range(5) if i is odd %}{{ i }}{{ loop.index }}{{ loop.length }}{{ loop.last }} {% endfor %}",
    "{% for i in range(5) if i > 9 %}{{ i }}{% else %}none{% endfor %}",
    "{% for i in l if loop.index %}{{ i }}{% endfor %}",
    "{% for u in users if u.age > 26 %}{{ u.name }}{{ loop.nextitem.name if not loop.last }} {% endfor %}",
    "{% for i in range(10) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in range(5) %}{% if i == 3 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
    "{% for i in range(3) %}{% break %}{% else %}x{% endfor %}y",
    "{% break %}",
    "{% if t %}{% continue %}{% endif %}",
    "{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
    "{% for i in l %}{% set o = loop %}{% for j in l %}{{ o.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for i in l %}{% endfor %}{{ i }}{{ loop }}",
    "{% for l in l %}{{ l }}{% endfor %}{{ l }}",
    "{% for i in l %}{{ loop(l) }}{% endfor %}",
    "{% for i in l: %}{{ i }}{% endfor %}",
    "{% for i l %}{% endfor %}",
    "{% for 1 in l %}{% endfor %}",
    "{% for i in l %}x",
    "{% for m in words|map('upper') %}{{ m }}{{ loop.length }}{{ loop.revindex }} {% endfor %}",
    "{% for m in words|map('upper') %}{{ m }}{{ loop.last }} {% endfor %}",
    "{% set it = words|map('upper') %}{% for a in it %}{{ a }}{% break %}{% endfor %}-{% for a in it %}{{ a }}{% endfor %}-{{ it|list }}",
    "{% set it = [1, 2, 3]|select %}{{ it|first }}{{ it|first }}{{ it|list }}{{ it|first is defined }}",
    "{% set ns = namespace(stop=false) %}{% for i in range(6) if not ns.stop %}{{ i }}{% if i == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "{% set ns = namespace(stop=false) %}{% for i in range(6) if not ns.stop %}{{ i }}{{ loop.last }}{% if i == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for i in [1, 0, 2]|map('abs') %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{% for i in l %}{{ loop is iterable }}{{ loop is callable }}{% endfor %}",
    # Set and scopes
    "{% set x = 1 %}{{ x }}",
    "{% set x, y = 1, 2 %}{{ x }}{{ y }}",
    "{% set x, y = y, x %}{{ x }}{{ y }}",
    "{% set (x, y) = [1, 2] %}{{ x }}{{ y }}",
    "{% set x = 1, 2 %}{{ x }}",
    "{% set x, y = 1 %}",
    "{% set x, y = [1, 2, 3] %}",
    "{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x|length }}",
    "{% set x | upper | replace('A', 'z') %}a{{ n }}{% endset %}{{ x }}",
    "{% set x %}{% set y = 5 %}{{ y }}{% endset %}{{ x }}{{ y }}",
    "{% set true = 1 %}",
    "{% set 5 = 1 %}",
    "{% set x %}",
    "{% set x = %}",
    "{% set x.y = 1 %}",
    "{% set d.a = 1 %}",
    "{% set ns = namespace() %}{% set ns.x = 1 %}{% set ns.x = ns.x + 1 %}{{ ns.x }}{{ ns['x'] }}{{ ns.y }}",
    "{% set ns = namespace(x=1) %}{% set ns._x = 1 %}",
    "{% set ns = namespace(x=1) %}{% set ns.x, y = 2, 3 %}{{ ns.x }}{{ y }}",
    "{% set ns = namespace(x=1) %}{% set ns.x %}block{% endset %}{{ ns.x }}",
    "{% set ns = namespace(x=[]) %}{% for i in l %}{% set ns.x = ns.x + [i * 2] %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(a=1) %}{% set m = ns %}{% set m.a = 2 %}{{ ns.a }}{{ ns == m }}{{ ns == namespace(a=2) }}",
    "{% set x = 0 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
    "{% for i in l %}{% set x = i %}{% endfor %}{{ x }}",
    "{% for i in l %}{{ y }}{% set y = i %}{{ y }} {% endfor %}",
    "{% if t %}{% set x = 1 %}{% endif %}{{ x }}",
    "{% if not t %}{% set n = 1 %}{% endif %}{{ n }}",
    "{% for i in [] %}{% else %}{% set z = 1 %}{% endfor %}{{ z }}",
    "{% set n = n + 1 %}{{ n }}",
    "{% set messages = messages[1:] %}{{ messages|length }}",
    "{% set range = 5 %}{{ range }}",
    "{% with x = 1, y = n %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% set x = 1 %}{% with x = 2, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x }}",
    "{% filter upper %}a{{ n }}b{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}abc{% set q = 1 %}{% endfilter %}{{ q }}",
    "{% generation %}a{{ n }}{% endgeneration %}",
    "x\n  {% generation %}\n  {{ n }}\n  {% endgeneration %}\ny",
    "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}",
    "{% for i in l %}{% generation %}{{ i }}{{ loop.index }}{% endgeneration %}{% endfor %}",
    "{% for i in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
    "{% for i in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for i in l %}{% set x %}a{% break %}{% endset %}{% endfor %}b",
    # Macros
    "{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m() }}",
    "{% macro m(a, b=a ~ 'x') %}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(c=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, a=3) }}",
    "{% macro m(x) %}{{ x }}{{ varargs | join(',') }}{% endmacro %}{{ m(1, 2, 3) }}{{ m(*l) }}{{ m(**{'x': 9}) }}",
    "{% macro m() %}{{ y }}{% endmacro %}{% set y = 1 %}{{ m() }}{% set y = 2 %}{{ m() }}",
    "{% macro m() %}{% set z = 5 %}{{ z }}{% endmacro %}{{ m() }}{{ z }}",
    "{% macro f(k) %}{{ k }}{% if k > 0 %},{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro f(k) %}{{ f(k + 1) }}{% endmacro %}{{ f(0) }}",
    "{% macro a(k) %}{% if k %}a{{ b(k - 1) }}{% endif %}{% endmacro %}{% macro b(k) %}{% if k %}b{{ a(k - 1) }}{% endif %}{% endmacro %}{{ a(5) }}",
    "{% macro m() %} x {% endmacro %}{{ m()|trim ~ '|' }}{{ m()|length }}",
    "{% macro m() -%}\n x\n{%- endmacro %}{{ m() }}",
    "{% for i in l %}{% macro m() %}{{ i }}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% if t %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}",
    "{{ m() }}{% macro m() %}x{% endmacro %}",
    "{% macro m(x) %}{{ x.a }}{% endmacro %}{{ m({'a': 1}) }}{{ m(d) }}",
    "{% macro m() %}{% endmacro %}{{ m() == '' }}{{ m is callable }}",
    "{% macro outer() %}{% macro inner(x) %}<{{ x }}>{% endmacro %}{{ inner(1) }}{{ inner(2) }}{% endmacro %}{{ outer() }}",
    "{% macro m(a, a2=[]) %}{{ a2 + [a] }}{% endmacro %}{{ m(1) }}{{ m(2) }}",
    "{% macro m() %}{{ raise_exception('inside') }}{% endmacro %}{{ m() }}",
    # What is not supported, and what is no Jinja
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% from 'x' import y %}",
    "{% extends 'x' %}",
    "{% call m() %}{% endcall %}",
    "{% do l.append(1) %}",
    "{% nosuch %}",
    "{% 5 %}",
    "{% %}",
    "{{ }}",
    "{{",
    "{%",
    "{{ n",
    "{% if t",
    "{{ 'abc }}",
    "{{ n }",
    "{{ (n }}",
    "{{ [n) }}",
    "{{ n) }}",
    "{{ n ! }}",
    "{{ n & 1 }}",
    "{{ n @ }}",
    "{{ a b }}",
    "{{ a. }}",
    "{{ a.'b' }}",
    "{{ a[ }}",
    "{{ f(a=1, 2) }}",
    "{{ f(**d, *l) }}",
    "{{ f(,) }}",
    "{{ 1 if }}",
    "{{ a | }}",
    "{{ a is }}",
    "{{ {1} }}",
    "{{ {'a': } }}",
    "{{ 'a' in }}",
    "{{ lambda: 1 }}",
    "{{ [x for x in l] }}",
    "{{ n; n }}",
    "{{ x = 1 }}",
    "{{ '{{' }}{{ '%}' }}{{ \"#}\" }}",
    "{{ {'a': {'b': 1}}.a.b }}",
    "{{ {'a': {}} }}",
    "{{ 'x'}}}",
    "{{ '\\ud800' }}",
    "{{ '\\x4' }}",
    "{{ 'a\\\nb' }}",
    "{{ 'multi\nline' }}",
    "a\nb\n{{ 'x\ny' }}\n{{ raise_exception('line') }}",
]

SOURCES = ["{{ " + source + " }}" for source in EXPRESSIONS] + STATEMENTS

# What Jinja renders and the engine refuses: Python's own representations, integers beyond 64 bits, and constructs that no
# published template needs.
REFUSED = [
    '{{ d.items }}',
    '{{ lipsum() }}',
    '{{ cycler(1, 2) }}',
    '{{ joiner() }}',
    '{{ self }}',
    '{{ s.upper | string | length > 5 }}',
    '{{ n is sameas 7 or true }}',
    '{{ none | items }}',
    '{{ {"items": 1}.items }}',
    '{{ {"get": 1}.get }}',
    '{{ s.format(1) }}',
    '{{ "%d" % 5 }}',
    '{{ "{}".format(1) }}',
    '{{ "abc".encode() }}',
    '{{ 1 .real }}',
    '{{ ("<b>" | safe) + "<" }}',
    '{{ "<" + ("<b>" | e) }}',
    '{{ 9223372036854775807 + 1 }}',
    '{{ (-8) ** 0.5 }}',
    '{{ 10 ** 400 }}',
    '{{ none[1:] }}',
    '{{ 5[1:] }}',
    '{{ "99999999999999999999" | int }}',
    '{{ words | map }}',
    '{{ "\\N{DIGIT ONE}" }}',
    "{% for i in l recursive %}{{ i }}{% endfor %}",
    "{% block x %}{% endblock %}",
    "{% autoescape true %}{% endautoescape %}",
    "{{ words | batch(2) | list }}",
    "{{ words | groupby('x') }}",
    "{{ '%s' | format(1) }}",
    "{{ d | attr('x') }}",
    "{{ s | wordcount }}",
    "{{ 'a' | urlencode }}",
    "{{ d == d.items() or d.items() == d.items() }}",
    "{{ range(3)[::-1] | list }}",
    "{{ namespace(a=1) }}",
    "{% macro m() %}{% endmacro %}{{ m }}",
    "{% for i in l %}{{ loop.changed(i) }}{% endfor %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall %}",
    "{{ 15 | round(-1) }}",
    "{{ strftime_now('%Q') }}",
    "{{ größe }}",
]
