//! The header of a GGUF file: sizes of a model without its weights.
//!
//! Layout after ggml's `docs/gguf.md`, versions 2 and 3: magic, version, counts, typed key-value pairs, then name,
//! dimensions and type of each tensor. The file is foreign input: every count is held against a limit, and no more than
//! [`MAX_HEADER_BYTES`] are read of it.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::model::{ModelShape, ShapeSource};

/// The largest headers carry vocabularies of a few hundred thousand words: some 20 MB.
const MAX_HEADER_BYTES: u64 = 256 << 20;
const MAX_ENTRIES: u64 = 1 << 20;
const MAX_NAME_BYTES: u64 = 64 << 10;
const MAX_DIMENSIONS: u32 = 8;
/// Per-layer arrays are as long as the model is deep.
const MAX_KEPT_ITEMS: u64 = 4_096;

/// Elements in a block and bytes of a block, by tensor type.
const TYPES: [(u32, u32, u32); 33] = [
    (0, 1, 4),
    (1, 1, 2),
    (2, 32, 18),
    (3, 32, 20),
    (6, 32, 22),
    (7, 32, 24),
    (8, 32, 34),
    (9, 32, 40),
    (10, 256, 84),
    (11, 256, 110),
    (12, 256, 144),
    (13, 256, 176),
    (14, 256, 210),
    (15, 256, 292),
    (16, 256, 66),
    (17, 256, 74),
    (18, 256, 98),
    (19, 256, 50),
    (20, 32, 18),
    (21, 256, 110),
    (22, 256, 82),
    (23, 256, 136),
    (24, 1, 1),
    (25, 1, 2),
    (26, 1, 4),
    (27, 1, 8),
    (28, 1, 8),
    (29, 256, 56),
    (30, 1, 2),
    (34, 256, 54),
    (35, 256, 66),
    (39, 32, 17),
    (40, 64, 36),
];

#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    #[error("it does not begin as a GGUF file does")]
    NotGguf,
    #[error("GGUF version {0} is not read; 2 and 3 are")]
    Version(u32),
    #[error("its header ends too early or can't be read: {0}")]
    Read(#[from] io::Error),
    #[error("its header is damaged: {0}")]
    Damaged(&'static str),
    #[error("tensor type {0} has no known size")]
    TensorType(u32),
    #[error("it is one part of a model in several files; state `params` and `bytes_per_weight` instead")]
    Split,
}

/// Reads a model's shape from the start of a GGUF file. `name` is kept as its source.
pub fn shape(reader: impl Read, name: &str) -> Result<ModelShape, GgufError> {
    let mut header = Header { reader: reader.take(MAX_HEADER_BYTES), numbers: BTreeMap::new(), words: BTreeMap::new() };
    if header.bytes::<4>()? != *b"GGUF" {
        return Err(GgufError::NotGguf);
    }
    let version = header.u32()?;
    if !(2..=3).contains(&version) {
        return Err(GgufError::Version(version));
    }
    let tensors = header.count("too many tensors")?;
    let pairs = header.count("too many key-value pairs")?;
    for _ in 0..pairs {
        header.pair()?;
    }
    if header.number("split.count").is_some_and(|count| count > 1.0) {
        return Err(GgufError::Split);
    }
    let sums = header.tensors(tensors)?;
    let mut shape = ModelShape::unknown(ShapeSource::Gguf(name.to_owned()));
    shape.params = Some(sums.elements);
    shape.active_params = Some(sums.active_elements);
    shape.weight_bytes = Some(sums.bytes);
    shape.read_bytes = Some(sums.active_bytes);
    shape.kv_elements = header.kv_elements();
    Ok(shape)
}

struct Header<R> {
    reader: io::Take<R>,
    /// Numeric values by key; a per-layer array as its items.
    numbers: BTreeMap<String, Vec<f64>>,
    words: BTreeMap<String, String>,
}

#[derive(Default)]
struct Sums {
    elements: f64,
    active_elements: f64,
    bytes: f64,
    active_bytes: f64,
}

impl<R: Read> Header<R> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn count(&mut self, beyond: &'static str) -> Result<u64, GgufError> {
        let count = self.u64()?;
        if count <= MAX_ENTRIES { Ok(count) } else { Err(GgufError::Damaged(beyond)) }
    }

    fn skip(&mut self, bytes: u64) -> Result<(), GgufError> {
        let skipped = io::copy(&mut self.reader.by_ref().take(bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) }
    }

    fn name(&mut self) -> Result<String, GgufError> {
        let length = self.u64()?;
        if length > MAX_NAME_BYTES {
            return Err(GgufError::Damaged("a name is too long"));
        }
        let mut bytes = vec![0; length as usize];
        self.reader.read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| GgufError::Damaged("a name is not UTF-8"))
    }

    /// One key with its value: numbers and short texts are kept, the rest is read over.
    fn pair(&mut self) -> Result<(), GgufError> {
        const STRING: u32 = 8;
        const ARRAY: u32 = 9;
        let key = self.name()?;
        match self.u32()? {
            STRING => {
                let length = self.u64()?;
                if length > MAX_NAME_BYTES {
                    return self.skip(length);
                }
                let mut bytes = vec![0; length as usize];
                self.reader.read_exact(&mut bytes)?;
                self.words.insert(key, String::from_utf8_lossy(&bytes).into_owned());
            }
            ARRAY => {
                let kind = self.u32()?;
                let length = self.u64()?;
                match kind {
                    STRING => self.skip_strings(length)?,
                    ARRAY => return Err(GgufError::Damaged("an array of arrays")),
                    _ if length <= MAX_KEPT_ITEMS => {
                        let items = (0..length).map(|_| self.scalar(kind)).collect::<Result<Vec<f64>, _>>()?;
                        self.numbers.insert(key, items);
                    }
                    _ => {
                        let size = scalar_bytes(kind).ok_or(GgufError::Damaged("an unknown value type"))?;
                        self.skip(length.saturating_mul(size))?;
                    }
                }
            }
            kind => {
                let value = self.scalar(kind)?;
                self.numbers.insert(key, vec![value]);
            }
        }
        Ok(())
    }

    fn skip_strings(&mut self, count: u64) -> Result<(), GgufError> {
        // Each takes 8 bytes at least, so that the limit on the header's bytes ends this loop.
        for _ in 0..count {
            let length = self.u64()?;
            self.skip(length)?;
        }
        Ok(())
    }

    fn scalar(&mut self, kind: u32) -> Result<f64, GgufError> {
        Ok(match kind {
            0 | 7 => f64::from(self.bytes::<1>()?[0]),
            1 => f64::from(i8::from_le_bytes(self.bytes()?)),
            2 => f64::from(u16::from_le_bytes(self.bytes()?)),
            3 => f64::from(i16::from_le_bytes(self.bytes()?)),
            4 => f64::from(self.u32()?),
            5 => f64::from(i32::from_le_bytes(self.bytes()?)),
            6 => f64::from(f32::from_le_bytes(self.bytes()?)),
            10 => self.u64()? as f64,
            11 => i64::from_le_bytes(self.bytes()?) as f64,
            12 => f64::from_le_bytes(self.bytes()?),
            _ => return Err(GgufError::Damaged("an unknown value type")),
        })
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.numbers.get(key)?.first().copied()
    }

    /// A number of the model's architecture: `llama.block_count`.
    fn of_model(&self, key: &str) -> Option<&[f64]> {
        let architecture = self.words.get("general.architecture")?;
        self.numbers.get(&format!("{architecture}.{key}")).map(Vec::as_slice)
    }

    fn first_of_model(&self, key: &str) -> Option<f64> {
        self.of_model(key)?.first().copied()
    }

    /// Keys and values of one token over all layers. Layers may have different numbers of heads, or none.
    fn kv_elements(&self) -> Option<f64> {
        let layers = self.first_of_model("block_count").filter(|layers| (1.0..=1e5).contains(layers))?;
        let heads = self.of_model("attention.head_count_kv").or_else(|| self.of_model("attention.head_count"))?;
        let all_heads: f64 = match heads {
            [each] => each * layers,
            several => several.iter().sum(),
        };
        let derived = || {
            let width = self.first_of_model("embedding_length")?;
            let heads = self.first_of_model("attention.head_count").filter(|heads| *heads > 0.0)?;
            Some(width / heads)
        };
        let key = self.first_of_model("attention.key_length").or_else(derived)?;
        let value = self.first_of_model("attention.value_length").or_else(derived)?;
        Some(all_heads * (key + value)).filter(|elements| elements.is_finite() && *elements >= 0.0)
    }

    fn tensors(&mut self, count: u64) -> Result<Sums, GgufError> {
        let used = self.first_of_model("expert_used_count").zip(self.first_of_model("expert_count"));
        let expert_share = used.map(|(used, all)| used / all).filter(|share| (0.0..=1.0).contains(share));
        let mut sums = Sums::default();
        let mut embedding = (0.0, 0.0);
        let mut has_output = false;
        for _ in 0..count {
            let name = self.name()?;
            let (elements, bytes) = self.tensor()?;
            sums.elements += elements;
            sums.bytes += bytes;
            let share = if name.contains("_exps.") { expert_share.unwrap_or(1.0) } else { 1.0 };
            sums.active_elements += elements * share;
            sums.active_bytes += bytes * share;
            match name.as_str() {
                "token_embd.weight" => embedding = (elements, bytes),
                "output.weight" => has_output = true,
                _ => {}
            }
        }
        // A tied embedding is also the output matrix and read whole; else a token reads one row of it.
        if has_output {
            sums.active_elements -= embedding.0;
            sums.active_bytes -= embedding.1;
        }
        Ok(sums)
    }

    /// Elements and bytes of the next tensor.
    fn tensor(&mut self) -> Result<(f64, f64), GgufError> {
        let dimensions = self.u32()?;
        if dimensions > MAX_DIMENSIONS {
            return Err(GgufError::Damaged("a tensor has too many dimensions"));
        }
        let mut elements = 1.0;
        for _ in 0..dimensions {
            elements *= self.u64()? as f64;
        }
        let kind = self.u32()?;
        self.u64()?; // Where its data begin.
        let (_, block, bytes) = TYPES.into_iter().find(|(id, ..)| *id == kind).ok_or(GgufError::TensorType(kind))?;
        Ok((elements, elements / f64::from(block) * f64::from(bytes)))
    }
}

fn scalar_bytes(kind: u32) -> Option<u64> {
    Some(match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        10..=12 => 8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct File(Vec<u8>);

    impl File {
        fn new(tensors: u64, pairs: u64) -> File {
            let mut file = File(b"GGUF".to_vec());
            file.0.extend(3_u32.to_le_bytes());
            file.0.extend(tensors.to_le_bytes());
            file.0.extend(pairs.to_le_bytes());
            file
        }

        fn text(mut self, text: &str) -> File {
            self.0.extend((text.len() as u64).to_le_bytes());
            self.0.extend(text.as_bytes());
            self
        }

        fn word(self, key: &str, value: &str) -> File {
            let mut file = self.text(key);
            file.0.extend(8_u32.to_le_bytes());
            file.text(value)
        }

        fn number(self, key: &str, value: u32) -> File {
            let mut file = self.text(key);
            file.0.extend(4_u32.to_le_bytes());
            file.0.extend(value.to_le_bytes());
            file
        }

        fn numbers(self, key: &str, values: &[u32]) -> File {
            let mut file = self.text(key);
            file.0.extend(9_u32.to_le_bytes());
            file.0.extend(4_u32.to_le_bytes());
            file.0.extend((values.len() as u64).to_le_bytes());
            for value in values {
                file.0.extend(value.to_le_bytes());
            }
            file
        }

        fn words(self, key: &str, values: &[&str]) -> File {
            let mut file = self.text(key);
            file.0.extend(9_u32.to_le_bytes());
            file.0.extend(8_u32.to_le_bytes());
            file.0.extend((values.len() as u64).to_le_bytes());
            values.iter().fold(file, |file, value| file.text(value))
        }

        fn tensor(self, name: &str, dimensions: &[u64], kind: u32) -> File {
            let mut file = self.text(name);
            file.0.extend((dimensions.len() as u32).to_le_bytes());
            for size in dimensions {
                file.0.extend(size.to_le_bytes());
            }
            file.0.extend(kind.to_le_bytes());
            file.0.extend(0_u64.to_le_bytes());
            file
        }
    }

    /// Two layers of 4 KV heads with 64 + 64 numbers each; `Q8_0` matrices, a separate output.
    fn dense() -> Vec<u8> {
        File::new(3, 7)
            .word("general.architecture", "llama")
            .number("llama.block_count", 2)
            .number("llama.embedding_length", 512)
            .number("llama.attention.head_count", 8)
            .number("llama.attention.head_count_kv", 4)
            .words("tokenizer.ggml.tokens", &["a", "b"])
            .number("llama.vocab_size", 32)
            .tensor("token_embd.weight", &[512, 32], 8)
            .tensor("output.weight", &[512, 32], 8)
            .tensor("blk.0.ffn_up.weight", &[512, 1024], 8)
            .0
    }

    #[test]
    fn sizes_of_a_dense_model() {
        let shape = shape(dense().as_slice(), "m.gguf").unwrap();
        let (embedding, matrix) = (512.0 * 32.0, 512.0 * 1024.0);
        assert_eq!(shape.params, Some(2.0 * embedding + matrix));
        assert_eq!(shape.active_params, Some(embedding + matrix));
        assert_eq!(shape.weight_bytes, Some((2.0 * embedding + matrix) / 32.0 * 34.0));
        assert_eq!(shape.read_bytes, Some((embedding + matrix) / 32.0 * 34.0));
        assert_eq!(shape.kv_elements, Some(2.0 * 4.0 * 128.0));
        assert_eq!(shape.kv_bytes_per_token(), Some(2048.0));
    }

    #[test]
    fn experts_count_by_how_many_are_used_and_heads_by_layer() {
        let file = File::new(2, 7)
            .word("general.architecture", "moe")
            .number("moe.block_count", 3)
            .number("moe.attention.key_length", 128)
            .number("moe.attention.value_length", 64)
            .numbers("moe.attention.head_count_kv", &[2, 0, 4])
            .number("moe.expert_count", 8)
            .number("moe.expert_used_count", 2)
            .tensor("token_embd.weight", &[100], 0)
            .tensor("blk.0.ffn_up_exps.weight", &[800], 1)
            .0;
        let shape = shape(file.as_slice(), "moe.gguf").unwrap();
        assert_eq!((shape.params, shape.active_params), (Some(900.0), Some(300.0)), "a tied embedding is read whole");
        assert_eq!((shape.weight_bytes, shape.read_bytes), (Some(2000.0), Some(800.0)));
        assert_eq!(shape.kv_elements, Some(6.0 * 192.0));
    }

    #[test]
    fn what_is_no_whole_model_is_told() {
        let told = |bytes: &[u8]| shape(bytes, "m").unwrap_err().to_string();
        assert!(told(b"{\"a\":1}....").contains("does not begin"));
        assert!(told(b"GGUF\x01\0\0\0").contains("version 1"));
        assert!(told(&dense()[..60]).contains("ends too early"));
        assert!(told(&File::new(u64::MAX, 0).0).contains("too many tensors"));
        assert!(told(&File::new(0, 1).number("split.count", 4).0).contains("several files"));
        assert!(told(&File::new(1, 0).tensor("x", &[2], 99).0).contains("type 99"));
        let mut long = File::new(0, 1).0;
        long.extend(u64::MAX.to_le_bytes());
        assert!(told(&long).contains("name is too long"));
    }

    proptest! {
        #[test]
        fn damaged_headers_never_panic(at in 0_usize..400, byte: u8, cut in 0_usize..500) {
            let mut bytes = dense();
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(cut.max(1));
            let _ = shape(bytes.as_slice(), "m");
        }
    }
}
