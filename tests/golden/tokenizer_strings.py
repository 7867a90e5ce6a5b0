"""The strings of tests/data/tokenizers/strings.bin: what a tokenizer meets, and what trips one.

Phrases were written for this file. Everything random is seeded; no code point is newer than
Unicode 14, so that programs with different Unicode tables agree on what is a letter.
"""

import random
import unicodedata

PHRASES = {
    "latin": [
        "The scout rode ahead and came back before noon.",
        "Seven foxes quietly mixed jam, bread and honey; nobody knew why!",
        "Don't wait: we're late, she'd said, and it's 5 o'clock.",
        "UPPER lower MiXeD camelCase snake_case kebab-case 3rd x2",
        "internationalisation, unconstitutionally, hippopotamuses",
    ],
    "latin diacritics": [
        "Über den Fluß führte früher eine schmale Brücke.",
        "L'été dernier, le garçon naïf a mangé des œufs à Noël.",
        "Żółta łódź płynęła przez cieśninę o świcie.",
        "Příliš mnoho kůň nepije, ale řeka teče dál.",
        "Đêm qua trời mưa rất to, đường phố ngập nước.",
        "İstanbul'da ılık bir gün, çocuklar şarkı söylüyor.",
        "El niño pingüino comió piñas; ¿dónde está el año?",
    ],
    "greek": [
        "Το πλοίο έφυγε από το λιμάνι νωρίς το πρωί.",
        "Ὁ δὲ ἄνθρωπος ᾤχετο πρὸς τὴν θάλασσαν.",
        "Ποιος ξέρει; Ίσως αύριο να βρέξει.",
    ],
    "cyrillic": [
        "Старый мост скрипел, но всё ещё держался.",
        "Їжак знайшов яблуко під ґанком.",
        "Љубав и њива, џеп и ђак, ћирилица.",
        "Ҡош күккә осто, ә мин ергә ҡараным.",
    ],
    "armenian": [
        "Գետի ափին կանգնած էր մի հին ջրաղաց։",
        "Բարև, ինչպե՞ս ես այսօր։",
    ],
    "georgian": [
        "მდინარე ნელა მიედინებოდა მთებს შორის.",
        "ᲓᲘᲓᲘ და პატარა ასოები",
    ],
    "hebrew": [
        "הסוס רץ לאורך הנהר עד הלילה.",
        "שָׁלוֹם לְכֻלָּם, מַה שְׁלוֹמְכֶם?",
    ],
    "arabic": [
        "ركض الحصان بجانب النهر حتى المساء.",
        "السَّلَامُ عَلَيْكُمْ يَا أَصْدِقَاءُ",
        "این کتاب را دیروز خریدم، می‌خواهم بخوانم.",
        "یہ گھر بہت پرانا ہے۔",
    ],
    "syriac": ["ܟܬܒܐ ܗܢܐ ܥܬܝܩ ܗܘ"],
    "thaana": ["މިއީ އާ ފޮތެކެވެ"],
    "devanagari": [
        "नदी के किनारे एक पुराना पेड़ खड़ा था।",
        "क्षत्रिय ज्ञान श्रद्धा द्वितीय १२३४",
        "माझे घर डोंगराच्या पायथ्याशी आहे.",
    ],
    "bengali": [
        "নদীর ধারে একটি পুরনো বাড়ি ছিল।",
        "আমি আজ সকালে বাজারে গিয়েছিলাম ১২৩",
    ],
    "gurmukhi": ["ਪਿੰਡ ਦੇ ਬਾਹਰ ਇੱਕ ਖੂਹ ਸੀ।"],
    "gujarati": ["ગામની બહાર એક જૂનો કૂવો હતો."],
    "oriya": ["ଗାଁ ବାହାରେ ଏକ ପୁରୁଣା କୂଅ ଥିଲା।"],
    "tamil": [
        "ஆற்றின் கரையில் ஒரு பழைய மரம் இருந்தது.",
        "கொக்கு பறந்தது; ஔவை சிரித்தாள் ௧௨௩",
    ],
    "telugu": ["నది ఒడ్డున ఒక పాత ఇల్లు ఉంది.", "క్షేత్రంలో పంట పండింది ౧౨౩"],
    "kannada": ["ನದಿಯ ದಡದಲ್ಲಿ ಒಂದು ಹಳೆಯ ಮನೆ ಇತ್ತು."],
    "malayalam": ["പുഴയുടെ തീരത്ത് ഒരു പഴയ വീട് ഉണ്ടായിരുന്നു.", "അവൻ്റെ ചില്ലക്ഷരം ൻ ർ ൽ"],
    "sinhala": ["ගඟ අයිනේ පරණ ගෙයක් තිබුණා.", "ක්‍රීඩා ශ්‍රී"],
    "thai": ["แม่น้ำไหลผ่านหมู่บ้านเก่า", "วันนี้ฝนตกหนักมาก ๑๒๓ ครั้ง"],
    "lao": ["ແມ່ນ້ຳໄຫຼຜ່ານບ້ານເກົ່າ", "ມື້ນີ້ຝົນຕົກ ໑໒໓"],
    "tibetan": ["གཙང་པོའི་འགྲམ་དུ་ཁང་པ་རྙིང་པ་ཞིག་ཡོད།", "བཀྲ་ཤིས་ ༡༢༣"],
    "myanmar": ["မြစ်ကမ်းမှာ အိမ်ဟောင်းတစ်လုံး ရှိတယ်။", "က္ခ ၁၂၃"],
    "khmer": ["នៅមាត់ទន្លេមានផ្ទះចាស់មួយ។", "ស្រ្តី ១២៣"],
    "ethiopic": ["በወንዙ ዳር አንድ አሮጌ ቤት ነበር።", "፩፪፫ ሰላም ለሁሉም"],
    "cherokee": ["ᎤᏪᏥ ᎠᎹ ᎦᏙᎯ ᏗᎦᎵᏍᏙᏗ", "ꭰꮉ Ꭰꮉ"],
    "canadian syllabics": ["ᐃᓄᒃᑎᑐᑦ ᐅᖃᐅᓯᖅ ᓄᓇ"],
    "mongolian": ["ᠮᠣᠷᠢ ᠤᠰᠤ ᠤᠤᠭᠤᠪᠠ᠃", "ᠭᠡᠷ᠎ᠠ ᠑᠒᠓"],
    "hangul": [
        "강가에 오래된 집이 한 채 있었다.",
        "값싼 닭고기와 읽기 어려운 책",
        "ㄱㄴㄷ ㅏㅑㅓ 한글",
    ],
    "kana": [
        "かわのほとりに ふるい いえが ありました。",
        "コンピューターでデータをチェックする",
        "ﾊﾝｶｸ ｶﾅ と 全角ＡＢＣ１２３",
        "が ぱ ゔ ヷ (が ぱ)",
    ],
    "han": [
        "河边有一座老房子，门前种着两棵树。",
        "河邊有一座老房子，門前種著兩棵樹。",
        "川沿いに古い家があり、猫が寝ている。",
        "一二三四五六七八九十百千万 〇 㐀 𠮷野家 𪚥",
        "豈更車 神福 﨎",
    ],
    "runic": ["ᚠᚢᚦᚨᚱᚲ ᛗᚨᚾᚾᚨᛉ"],
    "gothic": ["𐌰𐌲𐌲𐌹𐌻𐌿𐍃 𐌷𐌰𐌹𐌼𐍃"],
    "deseret": ["𐐔𐐯𐑅𐐨𐑉𐐯𐐻 𐐀𐐁"],
    "cuneiform": ["𒀀𒀁𒀂 𒐕𒐖"],
    "hieroglyphs": ["𓀀𓀁 𓂀 𓆣"],
    "braille": ["⠓⠑⠇⠇⠕ ⠺⠕⠗⠇⠙"],
    "mathematical": [
        "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α∧¬β = ¬(¬α∨β)",
        "𝐇𝐞𝐥𝐥𝐨 𝒲𝑜𝓇𝓁𝒹 𝟙𝟚𝟛 𝚌𝚘𝚍𝚎",
        "∫₀^∞ e^{−x²} dx = √π⁄2 ≈ 0.8862",
    ],
    "enclosed and compatibility": [
        "① ② ③ ⑳ ⒈ ⒜ Ⓐ ㊀ ㈠ ㋿ ㍿ ㌔",
        "ﬁnd ﬂow eﬃcient ĳ ǆ ŉ ſtill",
        "ａｂｃ　ＡＢＣ！？～ ￥￦ ﹏﹑",
        "№ ℡ ™ ℠ ℃ ℉ Å Ω ½ ⅔ ⅛ ↉",
    ],
}

EMOJI = [
    "😀", "😀😃😄", "I ❤️ maps", "❤ without selector", "👍🏽 👍🏿 👍", "👩‍👩‍👧‍👦 family", "🏳️‍🌈🏴‍☠️",
    "🇩🇪🇫🇷🇯🇵", "🇩🇪 🇫", "👨🏾‍🚀", "🧑🏻‍🤝‍🧑🏿", "1️⃣2️⃣#️⃣*️⃣", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "ok 👌🏻ok", "🙈🙉🙊" * 8,
    "☃☃︎☃️", "🫠🫡🥹", "♻️⚠️✅❌", "a😀b😀c", "😀\n😀", "   😀   ", "🧑‍💻 writes 💾", "👁️‍🗨️", "🀄🃏🎴",
    "⌚⏰⏳", "\u200d", "👩\u200d", "\u200d👩", "\ufe0f", "😀\ufe0e", "🇦" * 9, "👩🏽" * 6 + "!",
]

MARKS = [
    "e\u0301 \u00e9", "a\u0327\u0301 a\u0301\u0327", "q\u0307\u0323 q\u0323\u0307", "\u0301alone", " \u0301", "\u0301\u0301\u0301",
    "o\u0302\u0301 \u1ed1 \u00f4\u0301", "A\u030a \u00c5 \u212b", "\u0344 \u0308\u0301", "\u1e9b\u0323 \u017f\u0323\u0307", "\u03d3 \u03d2\u0301",
    "c\u0327\u0328\u0301", "\u0f73 \u0f71\u0f72", "\u0958 \u0915\u093c", "\u09cb \u09c7\u09be", "\u0b94 \u0b92\u0bd7", "\ufb2c \u05e9\u05bc\u05c1",
    "\u0622 \u0627\u0653", "\u2126 \u212a \u212b", "\uf900 \uf902", "\u1100\u1161 \uac00", "\u1100\u1161\u11a8 \uac01",
    "\uac00\u11a8 \uac01", "\uac00\u11a7", "\uac01\u11a8", "\u1100\u1100\u1161\u1161\u11a8\u11a8", "\u115f\u1161", "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "\u304b\u3099 \u304c \u306f\u309a \u3071", "\u3046\u3099", "\u2adc \u2add\u0338", "=\u0338 \u2260", "<\u0338 >\u0338", "\u1fee \u1fef", "\u0340\u0341",
    "x" + "\u0300\u0323\u0345\u0315" * 5, "Z" + "\u0335\u0336\u0337" * 12 + "algo", "i\u0307 \u0130 I\u0307", "\u0d4a \u0d46\u0d3e", "\u1025\u102e \u1026",
    "\U0001d15e \U0001d157\U0001d165", "\U000110ba\u0301", "\ufb01\u0301", "e\u200d\u0301", "e\u034f\u0301", "\u05d0\u05b7\u05bc\u05d1", "\u0628\u0651\u064e \u0628\u064e\u0651",
    "s\u0323\u0307 \u1e69 \u1e61\u0323 \u1e63\u0307", "d\u0323\u0307 \u1e0b\u0323 \u1e0d\u0307", "\u1e0b\u0323x", "\u00e7\u0301 \u1e09 \u0107\u0327",
]

CODE = [
    "def f(x, *args, **kw):\n    return [i**2 for i in range(x) if i % 2 == 0]\n",
    "class Node:\n\tdef __init__(self):\n\t\tself.next = None\n\n\n# done\n",
    "for (int i = 0; i < n; ++i) {\r\n  sum += a[i] * b[i];\r\n}\r\n",
    "template <typename T>\nstd::vector<T> Keep(std::span<const T> in) { return {in.begin(), in.end()}; }",
    "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", 42); return 0; }",
    "fn main() -> Result<(), Box<dyn Error>> { let v: Vec<u8> = vec![0; 1 << 10]; Ok(()) }",
    "const f = async ({a, ...rest}) => `${a?.b ?? \"none\"} ${await g(rest)}`;",
    "SELECT name, COUNT(*) AS n FROM rides WHERE day >= '2024-01-31' GROUP BY 1 ORDER BY n DESC;",
    "<div class=\"a b\" data-x='1'>\n  <p>Hi&nbsp;there</p><!-- note -->\n</div>",
    "{\"key\": [1, 2.5e-3, null, true], \"nested\": {\"a\\u00e9\": \"\\n\"}}",
    "find . -name '*.cc' | xargs grep -n \"TODO\" 2>/dev/null && echo $? || exit 1",
    "x = a if b else c; y |= 0xDEADBEEF ^ ~mask >> 3; z //= 7; assert x != y",
    "\\begin{equation} \\sum_{i=1}^{n} x_i^2 \\leq \\frac{1}{2} \\end{equation}",
    "name: build\non: [push]\njobs:\n  test:\n    runs-on: any\n    steps:\n      - run: make -j2\n",
    "https://example.org/a/b?c=d&e=%20f#g user+tag@mail.example C:\\Temp\\new.txt ../../up",
    "@@ -1,3 +1,4 @@\n-old\n+new\n context\n",
    "(define (fact n) (if (= n 0) 1 (* n (fact (- n 1)))))",
    "main = mapM_ print $ takeWhile (< 100) [x | x <- [1..], odd x]",
    "\t\tif err != nil {\n\t\t\treturn fmt.Errorf(\"open %q: %w\", path, err)\n\t\t}\n",
    "!!! ??? ... --- ___ *** ### $$$ %%% ^^^ &&& ((( ))) {{{ }}} [[[ ]]] <<< >>> ~~~ ```",
    "a=b;c==d;e===f;g!=h;i<=j;k>=l;m&&n;o||p;q++;--r;s->t;u::v;w=>x;y?.z",
    "\"quoted\" 'single' “curly” ‘curly’ «guillemets» „low“ `tick`",
    "-----BEGIN KEY-----\nTm90IGEga2V5LCBqdXN0IHRleHQ=\n-----END KEY-----",
    "0x1F 0b1010 0o17 1_000_000 1e10 .5 5. 1.2.3 v2.0.1-rc.1+build.7",
]

WHITESPACE = [
    " ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1f", "\x85", "\u00a0", "\u1680", "\u180e", "\u2000", "\u2003", "\u2009", "\u200a", "\u200b", "\u2028",
    "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff",
]

NUMBERS = [
    "0", "7", "42", "123", "1234", "12345", "123456", "1234567", "12345678", "123456789", "1234567890123456789012345678901234567890",
    "3.14159", "-273.15", "+1 (555) 010-9999", "1,234,567.89", "1.234.567,89", "50%", "$9.99", "€1 000", "2024-02-29T23:59:60Z", "10^100", "1/2 3⁄4",
    "٠١٢٣٤٥٦٧٨٩", "۰۱۲۳۴۵۶۷۸۹", "०१२३४५६७८९", "০১২৩৪৫৬৭৮৯", "๐๑๒๓๔๕๖๗๘๙", "໐໑໒໓", "༠༡༢༣", "၀၁၂၃", "០១២៣", "᠐᠑᠒᠓", "０１２３４５６７８９", "𝟎𝟏𝟐𝟑𝟒", "߀߁߂",
    "ⅠⅡⅢⅣ ⅰⅱⅲ Ↄↄ", "²³¹⁰⁴⁵ ₀₁₂₃", "¼½¾⅓⅕⅙⅐", "①②③ ❶❷❸ ➀➁", "㊿ ㉑ ㈠", "〡〢〣 〇", "𐄇𐄈 𐅀𐅁", "፩፪፫ ፻ ፼", "௰௱௲", "൰൱൲", "༳ ༪", "ᛮᛯᛰ", "𒐀𒐁", "一二三 1二3",
    "x1y22z333w4444", "1a2b3c", "12²3", "1٢3४5", "9" * 99, "1" * 200, "12 345 678", "1 2 3 4 5 6 7 8 9 10 11 12", "0.1+0.2=0.30000000000000004", "1st 2nd 3rd 4th 100th",
]

SPECIALS = [
    "<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<|padding|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
    "<|reserved_special_token_7|>", "<|object_ref_start|>", "<|vision_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<0x0A>", "<0xFF>", "<extra_id_0>", "▁", "▁▁▁",
    "<|endoftext|", "<|im_start", "[INST]", "<<SYS>>", "Ġ", "ĊĠ", "Ã©",
]

INVALID = [
    b"\x80", b"\xff", b"\xfe\xff", b"\xc0\x80", b"\xc1\xbf", b"\xc3", b"\xc3\x28", b"\xe2\x82", b"\xe2\x28\xa1", b"\xe2\x82\x28", b"\xf0\x9f\x98", b"\xf0\x9f", b"\xf0",
    b"\xf0\x28\x8c\xbc", b"\xf0\x90\x28\xbc", b"\xf8\x88\x80\x80\x80", b"\xfc\x84\x80\x80\x80\x80", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80",
    b"\xf4\x90\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xef\xbf\xbe", b"\xef\xbf\xbd", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xc2\x80\x80",
    b"\x80\x81\x82\x83", b"\xe2\xe2\x82\xac", b"\xf0\x9f\xf0\x9f\x98\x80",
]

STEMS = ["s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "Ve", "M", "LL", "lL", "D", "\u017f", "\u212a", "x", "", "st", "sat", "rev", "lla"]


def with_marks_apart(text):
    return unicodedata.normalize("NFD", text)


def phrases():
    flat = [phrase for group in PHRASES.values() for phrase in group]
    for i, phrase in enumerate(flat):
        yield phrase
        yield " " + phrase
        yield phrase + "  \n"
        yield with_marks_apart(phrase)
        yield unicodedata.normalize("NFKC", phrase)
        yield phrase.upper() if i % 2 else phrase.replace(" ", "")
        yield f"“{phrase}” ({i}), she wrote;\n\n\t{flat[(i * 7 + 3) % len(flat)]}"
        words = phrase.split(" ")
        yield "\n".join(words)
        yield from (word for word in words[:3])
        yield f" {words[-1]}"
        yield phrase[1::2]
        yield phrase[::-1]


def emoji():
    for text in EMOJI:
        yield text
        yield "so " + text + " it goes"
        yield text + text + "\n" + text


def marks():
    rng = random.Random(1)
    for text in MARKS:
        yield text
        yield "word" + text + "word " + text
    combining = [chr(c) for c in list(range(0x300, 0x345)) + [0x345, 0x35C, 0x360, 0x483, 0x591, 0x5B0, 0x5BC, 0x64B, 0x651, 0x670, 0x93C, 0x94D, 0x302A, 0x3099]]
    for _ in range(80):
        base = rng.choice("aeioucdnqszAEIOÅñπшא가か")
        yield " ".join(base + "".join(rng.choices(combining, k=rng.randint(1, 5))) for _ in range(rng.randint(1, 4)))
    for _ in range(60):
        pool = [range(0x1100, 0x1113), range(0x1161, 0x1176), range(0x11A7, 0x11C3), range(0xAC00, 0xD7A4), range(0xA960, 0xA97D)]
        yield "".join(chr(rng.choice(rng.choice(pool))) for _ in range(rng.randint(2, 9)))


def whitespace():
    for space in WHITESPACE:
        for run in (1, 2, 3, 7):
            yield "a" + space * run + "b" + space * run + "1" + space * run
        yield space
        yield space * 5
        yield space + "word"
        yield "word " + space + " !" + space + "\n" + space + "x"
    for run in (4, 8, 16, 23, 24, 25, 31, 32, 64, 100, 257):
        yield " " * run + "indented"
        yield "end" + " " * run
        yield "\n" * run
        yield "\t" * run + "x"
        yield "a" + " " * run + "\n" + " " * run + "b"
    rng = random.Random(2)
    for _ in range(60):
        yield "".join(rng.choice(WHITESPACE[:6] * 3 + WHITESPACE + ["a", "Z", "7", ".", "é", "語"]) for _ in range(rng.randint(3, 25)))


def controls():
    for c in list(range(0, 32)) + [127, 0x80, 0x81, 0x8D, 0x9F, 0xAD, 0x600, 0x61C, 0x200C, 0x200E, 0x202A, 0x202E, 0x2066, 0xFFF9, 0xE0001, 0xE000, 0xF8FF, 0x10FFFD]:
        yield chr(c)
        yield f"a{chr(c)}b {chr(c)}c{chr(c)}{chr(c)} 1"
    yield "\0\0\0\0"
    yield "nul\0terminated\0"


def numbers():
    for text in NUMBERS:
        yield text
        yield "a" + text + " b"


def contractions():
    for apostrophe in ("'", "\u2019", "\u02bc", "\uff07", "`"):
        for stem in STEMS:
            yield f"it{apostrophe}{stem} we {apostrophe}{stem}{apostrophe} 9{apostrophe}{stem}9 .{apostrophe}{stem}"
    yield "'''''" + "s'" * 5
    yield "rock 'n' roll y'all'd've o'clock 'tis 'twas"
    yield "DON'T CAN'T WE'LL I'M SHE'D THEY'RE I'VE JOHN'S"


def specials():
    for text in SPECIALS:
        yield text
        yield " " + text
        yield text + " after"
        yield "before" + text + "after"
        yield "before " + text + "\n" + text + text
        yield text.upper() + text[1:] + text[:-1]
    yield "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    yield "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello </s><s>"
    yield "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
    yield "e<|endoftext|>\u0301 <s>\u0301 a</s>\u0327"


def invalid():
    for text in INVALID:
        yield text
        yield b"ok " + text + b" ok" + text
    rng = random.Random(3)
    for _ in range(60):
        yield bytes(rng.randrange(256) for _ in range(rng.randint(1, 24)))
    for _ in range(40):
        text = rng.choice(rng.choice(list(PHRASES.values()))).encode()
        start = rng.randrange(len(text))
        yield text[start:start + rng.randint(1, 30)]


def long():
    yield "a" * 5000
    yield "ab" * 2000
    yield " " * 4096
    yield "\n" * 3000
    yield "!?" * 1500
    yield "7" * 3000
    yield "語" * 1500
    yield "한" * 600 + "\u1100\u1161" * 300
    rng = random.Random(4)
    words = " ".join(PHRASES["latin"] + PHRASES["latin diacritics"]).split(" ")
    yield " ".join(rng.choice(words) for _ in range(1000))
    yield "".join(rng.choice(words) for _ in range(700))


def mixes():
    rng = random.Random(5)
    flat = [phrase for group in PHRASES.values() for phrase in group]
    assigned = [
        c for c in range(0x20, 0x1FFFF)
        if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")
    ]
    for _ in range(160):
        yield "".join(chr(rng.choice(assigned)) for _ in range(rng.randint(1, 14)))
    pieces = (EMOJI + MARKS + CODE + WHITESPACE * 4 + NUMBERS + SPECIALS + ["'" + s for s in STEMS])
    for _ in range(260):
        parts = []
        for _ in range(rng.randint(2, 7)):
            text = rng.choice(pieces if rng.random() < 0.6 else flat)
            start = rng.randrange(len(text))
            parts.append(text[start:start + rng.randint(1, 18)])
        yield rng.choice(["", " ", "  ", "\n"]).join(parts)


def all_strings():
    """Every string once, in a fixed order, as bytes."""
    seen = dict.fromkeys([b""])
    for source in (phrases, emoji, marks, lambda: CODE, whitespace, controls, numbers, contractions, specials, invalid, long, mixes):
        for text in source():
            seen.setdefault(text if isinstance(text, bytes) else text.encode("utf-8"))
    return list(seen)


def varint(value):
    """How lengths and ids are written: LEB128."""
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
