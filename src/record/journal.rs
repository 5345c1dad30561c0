//! `journal.jsonl`: format version first, then one event a line, written unbuffered when it happens. A torn last line
//! (a crash in the middle of a write) is tolerated by the reader and repaired before a resume.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RecordError;
use crate::drive::Event;

pub const JOURNAL_FORMAT: &str = "counterpoise.journal/1";

/// A longer line is not a journal's: 256 MiB.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// First line of every JSONL file of a run.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub format: String,
}

/// Appends events. Each line reaches the kernel before `write` returns; `sync` makes it survive a power cut.
pub struct JournalWriter {
    file: File,
    path: PathBuf,
}

impl JournalWriter {
    pub fn create(path: &Path) -> Result<JournalWriter, RecordError> {
        let file = OpenOptions::new().append(true).create_new(true).open(path).map_err(|e| RecordError::at(path, e))?;
        lock(&file, path)?;
        let mut writer = JournalWriter { file, path: path.to_owned() };
        writer.line(&Header { format: JOURNAL_FORMAT.to_owned() })?;
        Ok(writer)
    }

    /// Opens a journal for more events. A torn last line is cut off; returns how many bytes that were.
    pub fn resume(path: &Path) -> Result<(JournalWriter, u64), RecordError> {
        check_header(path)?;
        let file = OpenOptions::new().append(true).open(path).map_err(|e| RecordError::at(path, e))?;
        lock(&file, path)?;
        let torn = repair(path).map_err(|e| RecordError::at(path, e))?;
        Ok((JournalWriter { file, path: path.to_owned() }, torn))
    }

    pub fn write(&mut self, event: &Event) -> Result<(), RecordError> {
        self.line(event)
    }

    pub fn sync(&mut self) -> Result<(), RecordError> {
        self.file.sync_data().map_err(|e| RecordError::at(&self.path, e))
    }

    /// One write call for the whole line, so that lines never interleave and at most the last one is torn.
    fn line<T: Serialize>(&mut self, value: &T) -> Result<(), RecordError> {
        let mut line = serde_json::to_vec(value).map_err(|e| RecordError::encode(&self.path, &e))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|e| RecordError::at(&self.path, e))
    }
}

/// One writer at a time: a second process on the same run is told so. The kernel frees the lock with the file.
fn lock(file: &File, path: &Path) -> Result<(), RecordError> {
    file.try_lock().map_err(|_| RecordError::Busy { path: path.to_owned() })
}

/// Cuts what follows the last line feed. Returns the number of bytes cut.
fn repair(path: &Path) -> std::io::Result<u64> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let mut end = length;
    let mut chunk = vec![0_u8; 64 * 1024];
    while end > 0 {
        let from = end.saturating_sub(chunk.len() as u64);
        let size = (end - from) as usize;
        file.seek(SeekFrom::Start(from))?;
        let Some(window) = chunk.get_mut(..size) else {
            break;
        };
        file.read_exact(window)?;
        if let Some(at) = window.iter().rposition(|&byte| byte == b'\n') {
            end = from + at as u64 + 1;
            break;
        }
        end = from;
    }
    if end < length {
        file.set_len(end)?;
        file.sync_all()?;
    }
    Ok(length - end)
}

fn check_header(path: &Path) -> Result<(), RecordError> {
    let file = File::open(path).map_err(|e| RecordError::at(path, e))?;
    let mut line = Vec::new();
    BufReader::new(file).take(4096).read_until(b'\n', &mut line).map_err(|e| RecordError::at(path, e))?;
    check_format(path, &line, JOURNAL_FORMAT)
}

/// The major version must be ours; `counterpoise.journal/2` is not read by this version.
fn check_format(path: &Path, line: &[u8], expected: &str) -> Result<(), RecordError> {
    let found = serde_json::from_slice::<Header>(line).map(|h| h.format).unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    let found = if found.is_empty() { "no format line".to_owned() } else { format!("format `{found}`") };
    Err(RecordError::Format { path: path.to_owned(), found, expected: expected.to_owned() })
}

/// Reads a JSONL file of a run line by line: never the whole file at once.
pub struct Lines<T> {
    reader: BufReader<File>,
    path: PathBuf,
    number: u64,
    /// Whether a last line without line feed is dropped silently.
    tolerate_torn: bool,
    of: std::marker::PhantomData<T>,
}

/// The journal's events in order.
pub fn read(path: &Path) -> Result<Lines<Event>, RecordError> {
    open_lines(path, JOURNAL_FORMAT, true)
}

/// Opens any JSONL file of a run and checks its format line.
pub(super) fn open_lines<T>(path: &Path, format: &str, tolerate_torn: bool) -> Result<Lines<T>, RecordError> {
    let file = File::open(path).map_err(|e| RecordError::at(path, e))?;
    let mut reader = BufReader::with_capacity(256 * 1024, file);
    let mut first = Vec::new();
    reader.by_ref().take(4096).read_until(b'\n', &mut first).map_err(|e| RecordError::at(path, e))?;
    check_format(path, &first, format)?;
    Ok(Lines { reader, path: path.to_owned(), number: 1, tolerate_torn, of: std::marker::PhantomData })
}

impl<T: serde::de::DeserializeOwned> Iterator for Lines<T> {
    type Item = Result<T, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        match read {
            Err(error) => return Some(Err(RecordError::at(&self.path, error))),
            Ok(0) => return None,
            Ok(_) => self.number += 1,
        }
        if line.last() != Some(&b'\n') && self.tolerate_torn {
            return None;
        }
        Some(serde_json::from_slice(&line).map_err(|error| RecordError::Line {
            path: self.path.clone(),
            line: self.number,
            reason: error.to_string(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::EndReason;

    fn event(at_us: u64) -> Event {
        Event::Ended { at_us, complete: true, reason: EndReason::Done }
    }

    fn read_all(path: &Path) -> Vec<Event> {
        read(path).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn reads_back_what_it_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let mut writer = JournalWriter::create(&path).unwrap();
        writer.write(&event(1)).unwrap();
        writer.write(&event(2)).unwrap();
        assert_eq!(read_all(&path), vec![event(1), event(2)]);
    }

    #[test]
    fn a_torn_last_line_is_ignored_and_repaired() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        JournalWriter::create(&path).unwrap().write(&event(1)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for torn in 1..40 {
            let mut bytes = whole.clone();
            let mut line = serde_json::to_vec(&event(2)).unwrap();
            line.truncate(torn);
            bytes.extend_from_slice(&line);
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(read_all(&path), vec![event(1)]);
            let (mut writer, cut) = JournalWriter::resume(&path).unwrap();
            assert_eq!(cut, line.len() as u64);
            assert!(matches!(JournalWriter::resume(&path), Err(RecordError::Busy { .. })));
            writer.write(&event(3)).unwrap();
            assert_eq!(read_all(&path), vec![event(1), event(3)]);
        }
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        JournalWriter::create(&path).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(b"{\"t\":\"nonsense\"}\n");
        std::fs::write(&path, &bytes).unwrap();
        let error = read(&path).unwrap().next().unwrap().unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn another_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        std::fs::write(&path, "{\"format\":\"counterpoise.journal/2\"}\n").unwrap();
        assert!(matches!(read(&path), Err(RecordError::Format { .. })));
        assert!(matches!(JournalWriter::resume(&path), Err(RecordError::Format { .. })));
    }
}
