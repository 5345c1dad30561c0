//! Server-sent events without IO: bytes in any split go in, events with their arrival instant come out.
//!
//! Follows the WHATWG HTML standard, "Parsing an event stream": lines end with LF, CR or CRLF, a leading byte order
//! mark is dropped, several `data` lines are joined by LF. It differs in one point: an event that the end of the
//! stream leaves without its blank line is handed out, marked [`Event::unterminated`], instead of being dropped.
//!
//! Data stays bytes, so that a character cut in two by a network packet is whole again before anyone decodes it.

use crate::units::Mono;

/// An event may carry at most this many bytes of data.
pub const MAX_EVENT_BYTES: usize = 8 << 20;
/// A line may be at most this long: one event's data and a field name.
pub const MAX_LINE_BYTES: usize = MAX_EVENT_BYTES + 64;
/// Room for data that is kept from one event to the next.
const KEPT_BYTES: usize = 64 << 10;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Arrival of the bytes that completed the event.
    pub at: Mono,
    pub data: Vec<u8>,
    /// The `event` field.
    pub event: Option<String>,
    /// The last `id` seen on the stream.
    pub id: Option<String>,
    /// Events that the same push completed, this one included.
    pub shared: u32,
    /// The stream ended before the event's blank line.
    pub unterminated: bool,
}

/// An event while the decoder still holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glimpse<'a> {
    pub data: &'a [u8],
    /// The `event` field.
    pub event: Option<&'a str>,
    id: Option<&'a str>,
}

/// Whoever is shown events.
type Each<'a> = &'a mut dyn FnMut(Glimpse<'_>);

/// Why a stream can't be read on. The decoder stays in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("a line of the event stream is longer than {limit_bytes} bytes")]
    LineTooLong { limit_bytes: usize },
    #[error("an event of the stream carries more than {limit_bytes} bytes of data")]
    EventTooLarge { limit_bytes: usize },
}

/// The decoder's state between two pushes.
#[derive(Debug)]
pub struct Decoder {
    max_event: usize,
    max_line: usize,
    /// The unfinished line.
    line: Vec<u8>,
    /// The unfinished event.
    data: Vec<u8>,
    has_data: bool,
    name: Option<String>,
    id: Option<String>,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    /// Nothing but a part of a byte order mark has been seen.
    at_start: bool,
    last_at: Mono,
    failed: Option<SseError>,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new()
    }
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder::with_limits(MAX_EVENT_BYTES, MAX_LINE_BYTES)
    }

    /// A decoder with other limits, in bytes: data of one event, length of one line.
    pub fn with_limits(max_event: usize, max_line: usize) -> Decoder {
        Decoder {
            max_event,
            max_line,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            name: None,
            id: None,
            after_cr: false,
            at_start: true,
            last_at: Mono(0),
            failed: None,
        }
    }

    /// Takes bytes that arrived at `at` and appends the events that they complete to `out`. Events that were complete
    /// before an error are handed out; after an error every push returns it again.
    pub fn push(&mut self, at: Mono, bytes: &[u8], out: &mut Vec<Event>) -> Result<(), SseError> {
        let before = out.len();
        self.last_at = at;
        let result = self.scan(bytes, &mut |event| out.push(event.kept(at, false)));
        mark_shared(out, before);
        result
    }

    /// Takes bytes and shows the events that they complete, without keeping any. Errors are those of [`Decoder::push`].
    pub fn scan(&mut self, bytes: &[u8], each: Each<'_>) -> Result<(), SseError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let result = self.lines(bytes, each);
        if let Err(error) = result {
            self.failed = Some(error);
            self.line = Vec::new();
            self.data = Vec::new();
        }
        result
    }

    /// Ends the stream: an event that lacks its blank line is handed out, marked as unterminated.
    pub fn finish(&mut self, out: &mut Vec<Event>) -> Result<(), SseError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let before = out.len();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.field(&line)?;
        }
        let at = self.last_at;
        self.dispatch(&mut |event| out.push(event.kept(at, true)));
        mark_shared(out, before);
        Ok(())
    }

    fn lines(&mut self, mut bytes: &[u8], each: Each<'_>) -> Result<(), SseError> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (head, tail) = bytes.split_at(end);
            self.end_line(head, each)?;
            bytes = match tail {
                [b'\r', b'\n', rest @ ..] | [b'\n', rest @ ..] => rest,
                [_, rest @ ..] => {
                    self.after_cr = rest.is_empty();
                    rest
                }
                [] => tail,
            };
        }
        self.extend_line(bytes)
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.len() + bytes.len() > self.max_line {
            return Err(SseError::LineTooLong { limit_bytes: self.max_line });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, head: &[u8], each: Each<'_>) -> Result<(), SseError> {
        if self.line.is_empty() && head.len() <= self.max_line {
            return self.whole_line(head, each);
        }
        self.extend_line(head)?;
        let mut line = std::mem::take(&mut self.line);
        let result = self.whole_line(&line, each);
        line.clear();
        self.line = line; // Keeps the allocation.
        result
    }

    fn whole_line(&mut self, line: &[u8], each: Each<'_>) -> Result<(), SseError> {
        let was_start = std::mem::replace(&mut self.at_start, false);
        let line = if was_start { line.strip_prefix(BOM).unwrap_or(line) } else { line };
        if line.is_empty() {
            self.dispatch(each);
            return Ok(());
        }
        self.field(line)
    }

    fn field(&mut self, line: &[u8]) -> Result<(), SseError> {
        let line = if self.at_start { line.strip_prefix(BOM).unwrap_or(line) } else { line };
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[] as &[u8]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.data.len() + value.len() + usize::from(self.has_data) > self.max_event {
                    return Err(SseError::EventTooLarge { limit_bytes: self.max_event });
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => self.name = Some(String::from_utf8_lossy(value).into_owned()),
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            // Comments (an empty name), `retry` and what nobody defined.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, each: Each<'_>) {
        let name = self.name.take().filter(|name| !name.is_empty());
        if !std::mem::take(&mut self.has_data) {
            return;
        }
        each(Glimpse { data: &self.data, event: name.as_deref(), id: self.id.as_deref() });
        if self.data.capacity() > KEPT_BYTES {
            self.data = Vec::new();
        }
        self.data.clear();
    }
}

impl Glimpse<'_> {
    fn kept(self, at: Mono, unterminated: bool) -> Event {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Event { at, data: self.data.to_vec(), event: owned(self.event), id: owned(self.id), shared: 1, unterminated }
    }
}

fn mark_shared(out: &mut [Event], before: usize) {
    let Some(new) = out.get_mut(before..) else { return };
    let shared = u32::try_from(new.len()).unwrap_or(u32::MAX);
    for event in new {
        event.shared = shared;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes pieces, each with its own instant, to the end.
    fn decode(pieces: &[&[u8]]) -> Vec<Event> {
        let mut decoder = Decoder::new();
        let mut out = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            decoder.push(Mono(index as u64), piece, &mut out).unwrap();
        }
        decoder.finish(&mut out).unwrap();
        out
    }

    fn data(pieces: &[&[u8]]) -> Vec<String> {
        decode(pieces).into_iter().map(|e| String::from_utf8(e.data).unwrap()).collect()
    }

    /// What a split must not change.
    fn content(events: Vec<Event>) -> Vec<Event> {
        events.into_iter().map(|event| Event { at: Mono(0), shared: 1, ..event }).collect()
    }

    #[test]
    fn every_line_ending_ends_a_line() {
        for stream in ["data: a\n\ndata: b\n\n", "data: a\r\rdata: b\r\r", "data: a\r\n\r\ndata: b\r\n\r\n"] {
            assert_eq!(data(&[stream.as_bytes()]), ["a", "b"], "{stream:?}");
        }
        assert_eq!(data(&[b"data: a\r", b"\n\r", b"\ndata: b\r\n", b"\r\n"]), ["a", "b"]);
    }

    #[test]
    fn a_cr_at_the_end_of_a_read_does_not_wait_for_the_next_one() {
        let mut decoder = Decoder::new();
        let mut out = Vec::new();
        decoder.push(Mono(7), b"data: a\r\n\r", &mut out).unwrap();
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].at, Mono(7));
        decoder.push(Mono(8), b"\ndata: b\n\n", &mut out).unwrap();
        assert_eq!((out.len(), out[1].at), (2, Mono(8)));
    }

    #[test]
    fn fields_are_read_as_the_standard_says() {
        let events = decode(&[
            b":comment\nid: 4\nevent: delta\ndata:{\ndata:  x\ndata\nretry: 5\nother: y\n\nid\x00: 5\ndata: 2\n\n",
        ]);
        assert_eq!(events[0].data, b"{\n x\n");
        assert_eq!(events[0].event.as_deref(), Some("delta"));
        assert_eq!(events[0].id.as_deref(), Some("4"));
        assert_eq!((events[1].event.as_deref(), events[1].id.as_deref()), (None, Some("4")));
        assert_eq!(events.len(), 2);
    }

    #[test]
    fn an_event_without_data_is_none_and_its_name_is_forgotten() {
        assert_eq!(data(&[b"event: ping\n\n: keep-alive\n\n\n\ndata:\n\n"]), [""]);
        assert_eq!(decode(&[b"event: ping\n\ndata: a\n\n"])[0].event, None);
    }

    #[test]
    fn a_byte_order_mark_is_dropped_at_the_start_only() {
        assert_eq!(data(&[b"\xEF\xBB", b"\xBFdata: a\n\n"]), ["a"]);
        assert_eq!(data(&[b"data: a\n\n\xEF\xBB\xBFdata: b\n\n"]), ["a"]);
        assert_eq!(data(&[b"\xEF\xBB\xBFdata: a"]), ["a"]);
    }

    #[test]
    fn the_last_event_needs_no_blank_line_but_is_marked() {
        let events = decode(&[b"data: a\n\n", b"data: b"]);
        assert_eq!(events.iter().map(|e| e.unterminated).collect::<Vec<_>>(), [false, true]);
        assert_eq!(events[1].at, Mono(1));
        assert!(!decode(&[b"data: b\n\n"])[0].unterminated);
        assert!(decode(&[b"data: b\n"])[0].unterminated);
    }

    #[test]
    fn events_know_how_many_came_with_them() {
        let events = decode(&[b"data: a\n\ndata: b\n\ndata: c", b"\n\n"]);
        assert_eq!(events.iter().map(|e| e.shared).collect::<Vec<_>>(), [2, 2, 1]);
    }

    #[test]
    fn limits_end_the_stream_as_a_value() {
        let mut decoder = Decoder::with_limits(8, 100);
        let mut out = Vec::new();
        let error = decoder.push(Mono(0), b"data: 1\n\ndata: 12345\ndata: 67890\n\n", &mut out).unwrap_err();
        assert_eq!(error, SseError::EventTooLarge { limit_bytes: 8 });
        assert_eq!(out.len(), 1);
        assert_eq!(decoder.push(Mono(1), b"data: 2\n\n", &mut out), Err(error));
        assert_eq!(decoder.finish(&mut out), Err(error));

        let mut decoder = Decoder::with_limits(8, 10);
        assert!(decoder.push(Mono(0), b":12345", &mut out).is_ok());
        let error = decoder.push(Mono(0), b"678901", &mut out).unwrap_err();
        assert_eq!(error, SseError::LineTooLong { limit_bytes: 10 });
        let mut decoder = Decoder::with_limits(8, 10);
        assert!(decoder.push(Mono(0), b":1234567890123\n", &mut out).is_err());
    }

    #[test]
    fn a_large_event_in_small_reads_is_whole() {
        let big = vec![b'x'; 1 << 20];
        let mut stream = b"data: ".to_vec();
        stream.extend_from_slice(&big);
        stream.extend_from_slice(b"\n\n");
        let pieces: Vec<&[u8]> = stream.chunks(37).collect();
        let events = decode(&pieces);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].data, big);
    }

    /// Streams that look like streams: fields, odd endings, characters of several bytes.
    fn stream() -> impl Strategy<Value = String> {
        let word = prop_oneof![
            Just("data: "),
            Just("data:"),
            Just("event: "),
            Just("id: "),
            Just(":"),
            Just("\n"),
            Just("\n\n"),
            Just("\r"),
            Just("\r\n"),
            Just("\r\n\r\n"),
            Just("{\"a\":1}"),
            Just("é🦀"),
            Just("[DONE]"),
            Just("\u{feff}"),
            Just(" "),
        ];
        prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(stream in stream(), cuts in prop::collection::vec(0_usize..400, 0..40)) {
            let bytes = stream.as_bytes();
            let whole = content(decode(&[bytes]));
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let mut pieces: Vec<&[u8]> = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            prop_assert_eq!(&content(decode(&pieces)), &whole);
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(&content(decode(&single)), &whole);
        }

        #[test]
        fn arbitrary_bytes_never_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20)) {
            let mut decoder = Decoder::with_limits(40, 60);
            let mut out = Vec::new();
            for piece in &pieces {
                let _ = decoder.push(Mono(1), piece, &mut out);
            }
            let _ = decoder.finish(&mut out);
            prop_assert!(out.iter().all(|event| event.data.len() <= 40));
        }
    }
}
