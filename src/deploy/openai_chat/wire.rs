//! The wire's JSON, read leniently: a field of an unexpected type is as good as absent, and nothing is held that is
//! not needed, so that a hostile answer costs no more than its own bytes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::deploy::dialect::Usage;

/// `timings` larger than this are not kept.
const MAX_TIMINGS_BYTES: usize = 64 << 10;
/// Entries of `timings` that are kept, and the longest name among them in characters.
const MAX_TIMINGS: usize = 32;
const MAX_TIMING_NAME_CHARS: usize = 64;
/// A timing above this is none, whatever its unit.
const MAX_TIMING: f64 = 1e12;
/// A count of tokens above this is none.
const MAX_COUNT: u64 = 1_000_000_000;
/// Choices, parts or calls beyond these are not read.
const MAX_ITEMS: usize = 4_096;

/// A chunk of a stream, a whole answer, or an error: servers send each where another is expected.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Body<'a> {
    #[serde(borrow)]
    pub choices: Option<&'a RawValue>,
    #[serde(borrow)]
    pub usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub x_groq: Option<&'a RawValue>,
    #[serde(borrow)]
    pub timings: Option<&'a RawValue>,
    #[serde(borrow)]
    pub model: Option<&'a RawValue>,
    #[serde(borrow)]
    pub system_fingerprint: Option<&'a RawValue>,
    #[serde(borrow)]
    pub object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub detail: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    pub kind: Option<&'a RawValue>,
    #[serde(borrow)]
    pub code: Option<&'a RawValue>,
    #[serde(borrow)]
    pub param: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    pub index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub delta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub finish_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    pub token_ids: Option<&'a RawValue>,
    #[serde(borrow)]
    pub logprobs: Option<&'a RawValue>,
    #[serde(borrow)]
    pub usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawDelta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
}

/// What a delta (or a whole message) adds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Delta {
    pub content: String,
    pub reasoning: String,
    pub refusal: String,
    /// Bytes of names and arguments of tool calls.
    pub tool_bytes: usize,
    /// A tool call is named or carries arguments.
    pub tool_call: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolCall<'a> {
    #[serde(borrow)]
    function: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// Parses a raw value as `T`; `None` where it is absent, null or of another shape.
pub(super) fn parse<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    raw.filter(|raw| raw.get() != "null").and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// The objects among an array's elements. (serde would take an array for a struct, field by field.)
pub(super) fn objects<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Vec<T> {
    let is_object = |raw: &&RawValue| raw.get().starts_with('{');
    items(raw).into_iter().filter(is_object).filter_map(|raw| parse(Some(raw))).collect()
}

/// Parses a body: an object, or an array that holds one, as Google's servers wrap their errors.
pub(super) fn body(text: &str) -> Option<Body<'_>> {
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    match raw.get().as_bytes().first() {
        Some(b'{') => parse(Some(raw)),
        Some(b'[') => objects(Some(raw)).into_iter().next(),
        _ => None,
    }
}

/// A string with something in it. Half a surrogate pair is replaced, not refused: the rest of the text counts.
pub(super) fn text(raw: Option<&RawValue>) -> Option<String> {
    parse::<Lossy>(raw).map(|text| text.0).filter(|text| !text.is_empty())
}

struct Lossy(String);

impl<'de> Deserialize<'de> for Lossy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Lossy;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Lossy, E> {
                Ok(Lossy(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

/// The elements of a JSON array, the first few thousand; none where it is no array.
pub(super) fn items<'a>(raw: Option<&'a RawValue>) -> Vec<&'a RawValue> {
    parse::<Elements<'a>>(raw).map(|elements| elements.first).unwrap_or_default()
}

/// The length of a JSON array, 0 where it is none.
fn length(raw: Option<&RawValue>) -> usize {
    parse::<Elements<'_>>(raw).map_or(0, |elements| elements.count)
}

/// An array whose length costs no memory: a body of empty objects would otherwise grow thirtyfold in reading.
struct Elements<'a> {
    first: Vec<&'a RawValue>,
    count: usize,
}

impl<'de: 'a, 'a> Deserialize<'de> for Elements<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> serde::de::Visitor<'de> for Visitor<'a> {
            type Value = Elements<'a>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Elements<'a>, A::Error> {
                let mut elements = Elements { first: Vec::new(), count: 0 };
                while let Some(element) = seq.next_element::<&'de RawValue>()? {
                    elements.count += 1;
                    if elements.first.len() < MAX_ITEMS {
                        elements.first.push(element);
                    }
                }
                Ok(elements)
            }
        }
        deserializer.deserialize_seq(Visitor(std::marker::PhantomData))
    }
}

impl<'a> Choice<'a> {
    /// What the choice adds. Streams carry `delta`, whole answers `message`; some servers swap them.
    pub(super) fn delta(&self) -> Delta {
        let raw = self.delta.filter(|raw| raw.get() != "null").or(self.message);
        parse::<RawDelta<'a>>(raw).map(|raw| Delta::from_raw(&raw)).unwrap_or_default()
    }

    /// Tokens of this choice's event, where their ids or log-probabilities are listed.
    pub(super) fn listed_tokens(&self) -> Option<u32> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Logprobs<'a> {
            #[serde(borrow)]
            content: Option<&'a RawValue>,
        }
        let ids = length(self.token_ids);
        let count = match ids {
            0 => parse::<Logprobs<'a>>(self.logprobs).map_or(0, |logprobs| length(logprobs.content)),
            ids => ids,
        };
        u32::try_from(count).ok().filter(|count| *count > 0)
    }
}

impl Delta {
    fn from_raw(raw: &RawDelta<'_>) -> Delta {
        let mut delta = Delta::default();
        delta.take_content(raw.content);
        // Some servers send the same text under both names.
        let reasoning = text(raw.reasoning_content).or_else(|| text(raw.reasoning));
        delta.reasoning.push_str(&reasoning.unwrap_or_default());
        delta.refusal = text(raw.refusal).unwrap_or_default();
        for call in items(raw.tool_calls) {
            let call: ToolCall<'_> = parse(Some(call)).unwrap_or_default();
            delta.take_function(call.function);
        }
        delta.take_function(raw.function_call);
        delta
    }

    /// Content is a string, or a list of parts (`text`, `thinking`), as Mistral's reasoning models send it.
    fn take_content(&mut self, raw: Option<&RawValue>) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Part<'a> {
            #[serde(borrow)]
            text: Option<&'a RawValue>,
            #[serde(borrow)]
            thinking: Option<&'a RawValue>,
        }
        if let Some(content) = text(raw) {
            self.content = content;
            return;
        }
        for part in items(raw) {
            let part: Part<'_> = parse(Some(part)).unwrap_or_default();
            self.content.push_str(&text(part.text).unwrap_or_default());
            self.reasoning.push_str(&text(part.thinking).unwrap_or_default());
            for thought in items(part.thinking) {
                let thought: Part<'_> = parse(Some(thought)).unwrap_or_default();
                self.reasoning.push_str(&text(thought.text).unwrap_or_default());
            }
        }
    }

    fn take_function(&mut self, raw: Option<&RawValue>) {
        let Some(function) = parse::<Function<'_>>(raw) else { return };
        let name = text(function.name).map_or(0, |name| name.len());
        let arguments = match text(function.arguments) {
            Some(arguments) => arguments.len(),
            // Some servers send the arguments as an object instead of as its text.
            None => function.arguments.filter(|raw| raw.get().starts_with('{')).map_or(0, |raw| raw.get().len()),
        };
        self.tool_bytes += name + arguments;
        self.tool_call |= name + arguments > 0;
    }

    pub(super) fn carries_token(&self) -> bool {
        self.tool_call || !(self.content.is_empty() && self.reasoning.is_empty() && self.refusal.is_empty())
    }
}

/// A count: an integer, or a float that is one; none above [`MAX_COUNT`].
fn count(raw: Option<&RawValue>) -> Option<u64> {
    let number: Number = parse(raw)?;
    let count = number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        ((0.0..=1e15).contains(&float) && float.fract() == 0.0).then_some(float as u64)
    });
    count.filter(|count| *count <= MAX_COUNT)
}

/// Reads a `usage` object with the details that vendors name differently; `None` where there is no count in it.
pub(super) fn usage(raw: Option<&RawValue>) -> Option<Usage> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Wire<'a> {
        #[serde(borrow)]
        prompt_tokens: Option<&'a RawValue>,
        #[serde(borrow)]
        completion_tokens: Option<&'a RawValue>,
        #[serde(borrow)]
        prompt_tokens_details: Option<&'a RawValue>,
        #[serde(borrow)]
        completion_tokens_details: Option<&'a RawValue>,
        #[serde(borrow)]
        prompt_cache_hit_tokens: Option<&'a RawValue>,
        #[serde(borrow)]
        cached_tokens: Option<&'a RawValue>,
        #[serde(borrow)]
        reasoning_tokens: Option<&'a RawValue>,
    }
    let wire: Wire<'_> = parse(raw)?;
    let in_prompt: Wire<'_> = parse(wire.prompt_tokens_details).unwrap_or_default();
    let in_completion: Wire<'_> = parse(wire.completion_tokens_details).unwrap_or_default();
    let usage = Usage {
        prompt_tokens: count(wire.prompt_tokens),
        completion_tokens: count(wire.completion_tokens),
        cached_tokens: count(in_prompt.cached_tokens)
            .or_else(|| count(wire.prompt_cache_hit_tokens))
            .or_else(|| count(wire.cached_tokens)),
        cache_write_tokens: None,
        reasoning_tokens: count(in_completion.reasoning_tokens).or_else(|| count(wire.reasoning_tokens)),
    };
    let usage = consistent(usage);
    (usage != Usage::default()).then_some(usage)
}

/// A part that is larger than its whole is unknown.
pub(super) fn consistent(mut usage: Usage) -> Usage {
    let within = |part: Option<u64>, whole: Option<u64>| part.filter(|part| whole.is_none_or(|whole| *part <= whole));
    usage.cached_tokens = within(usage.cached_tokens, usage.prompt_tokens);
    usage.reasoning_tokens = within(usage.reasoning_tokens, usage.completion_tokens);
    usage
}

/// The usage of a chunk, wherever the vendor puts it.
pub(super) fn usage_anywhere(body: &Body<'_>, choices: &[Choice<'_>]) -> Option<Usage> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Groq<'a> {
        #[serde(borrow)]
        usage: Option<&'a RawValue>,
    }
    usage(body.usage)
        .or_else(|| choices.iter().find_map(|choice| usage(choice.usage)))
        .or_else(|| parse::<Groq<'_>>(body.x_groq).and_then(|groq| usage(groq.usage)))
}

/// llama.cpp's `timings`: the named numbers among it. Whatever is kept is written down and read again, so that nothing
/// nested may pass.
pub(super) fn timings(raw: Option<&RawValue>) -> Option<Value> {
    let raw = raw.filter(|raw| raw.get().len() <= MAX_TIMINGS_BYTES);
    let named: BTreeMap<String, &RawValue> = parse(raw)?;
    let kept: Map<String, Value> = named
        .into_iter()
        .filter(|(name, _)| name.chars().count() <= MAX_TIMING_NAME_CHARS && !name.chars().any(char::is_control))
        .filter_map(|(name, raw)| Some((name, Value::Number(timing(raw)?))))
        .take(MAX_TIMINGS)
        .collect();
    (!kept.is_empty()).then_some(Value::Object(kept))
}

fn timing(raw: &RawValue) -> Option<Number> {
    let number: Number = parse(Some(raw))?;
    number.as_f64().is_some_and(|n| (0.0..=MAX_TIMING).contains(&n)).then_some(number)
}

/// `timings.predicted_n`: tokens generated so far, where llama.cpp sends timings with every token.
pub(super) fn predicted_so_far(raw: Option<&RawValue>) -> Option<u64> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Wire<'a> {
        #[serde(borrow)]
        predicted_n: Option<&'a RawValue>,
    }
    count(parse::<Wire<'_>>(raw)?.predicted_n)
}

/// A hint without parsing: does one of the text-bearing keys hold something that is neither null nor empty?
pub(super) fn may_carry_token(data: &[u8]) -> bool {
    // Made once: this runs for every event on the thread that reads.
    static KEYS: LazyLock<[Finder<'static>; 6]> = LazyLock::new(|| {
        ["content", "reasoning", "reasoning_content", "refusal", "arguments", "name"]
            .map(|key| Finder::new(&format!("\"{key}\"")).into_owned())
    });
    KEYS.iter().any(|key| key.find_iter(data).any(|at| holds_text(&data[at + key.needle().len()..])))
}

/// Whether `: "x…` or `: [` follows; null and the empty string carry nothing.
fn holds_text(rest: &[u8]) -> bool {
    let rest = rest.trim_ascii_start();
    let Some(value) = rest.strip_prefix(b":") else { return false };
    match value.trim_ascii_start() {
        [b'"', b'"', ..] | [] => false,
        [b'"' | b'[' | b'{', ..] => true,
        _ => false,
    }
}
