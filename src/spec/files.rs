//! Files that a suite names: below its root, on disk or inside the program, and never outside.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;

use super::{builtin, suggest};

/// Marks a path inside the program.
pub const BUILTIN: &str = "builtin:";

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileError {
    #[error("`{path}` leaves the suite's root")]
    LeavesRoot { path: String, root: String },
    #[error("`{path}` is not there")]
    Missing { path: String, near: Option<String> },
    #[error("`{path}` is a folder")]
    IsFolder { path: String },
    #[error("`{path}` can't be read: {why}")]
    Unreadable { path: String, why: String },
    #[error("`{path}` has more than {limit} bytes")]
    TooLarge { path: String, limit: u64 },
}

/// The folder that relative paths start from and may not leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// A root on disk: symbolic links are followed once, here.
    pub fn on_disk(folder: &Path) -> Result<Root, FileError> {
        let path = folder.display().to_string();
        let real =
            folder.canonicalize().map_err(|e| FileError::Unreadable { path: path.clone(), why: e.to_string() })?;
        if real.is_dir() {
            Ok(Root(real))
        } else {
            Err(FileError::Unreadable { path, why: "it is not a folder".into() })
        }
    }

    /// A folder inside the program; `""` is the repository's own root.
    pub fn embedded(folder: &str) -> Root {
        Root(PathBuf::from(format!("{BUILTIN}{folder}")))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The embedded folder that `relative` leads to from this one.
    pub fn below(&self, relative: &str) -> Result<Root, FileError> {
        let joined = self.embedded_folder().and_then(|folder| join(folder, relative));
        let leaves = || FileError::LeavesRoot { path: relative.to_owned(), root: self.0.display().to_string() };
        joined.map(|folder| Root::embedded(&folder)).ok_or_else(leaves)
    }

    fn embedded_folder(&self) -> Option<&str> {
        self.0.to_str()?.strip_prefix(BUILTIN)
    }

    /// The file at `relative`, absolute, or `builtin:PATH`. The text `builtin:PATH` names an embedded file from any
    /// root.
    pub fn resolve(&self, relative: &str) -> Result<PathBuf, FileError> {
        let leaves = || FileError::LeavesRoot { path: relative.to_owned(), root: self.0.display().to_string() };
        let embedded = match (relative.strip_prefix(BUILTIN), self.embedded_folder()) {
            (Some(path), _) => Some(join("", path).ok_or_else(leaves)?),
            (None, Some(folder)) => Some(join(folder, relative).ok_or_else(leaves)?),
            (None, None) => None,
        };
        if let Some(path) = embedded {
            return match builtin::file(&path) {
                Some(_) => Ok(PathBuf::from(format!("{BUILTIN}{path}"))),
                None => Err(FileError::Missing {
                    near: suggest::nearest(&path, builtin::paths()).map(str::to_owned),
                    path: relative.to_owned(),
                }),
            };
        }
        let given = Path::new(relative);
        // Lexically first, so that a path outside is told as such even where nothing is there.
        if !given.is_absolute() && join("", relative).is_none() {
            return Err(leaves());
        }
        let full = self.0.join(given);
        let real = full.canonicalize().map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound if given.is_absolute() && !given.starts_with(&self.0) => leaves(),
            std::io::ErrorKind::NotFound => FileError::Missing { path: relative.to_owned(), near: near(&full) },
            _ => FileError::Unreadable { path: relative.to_owned(), why: e.to_string() },
        })?;
        if !real.starts_with(&self.0) {
            return Err(leaves());
        }
        if real.is_dir() {
            return Err(FileError::IsFolder { path: relative.to_owned() });
        }
        Ok(real)
    }
}

/// Joins `/`-separated paths without a file system; `None` where the result would lie above the start.
fn join(folder: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = vec![];
    for component in Path::new(folder).components().chain(Path::new(relative).components()) {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// The name in the same folder that is nearest to a file that is missing.
fn near(missing: &Path) -> Option<String> {
    const MOST: usize = 500;
    let name = missing.file_name()?.to_str()?;
    let entries = missing.parent()?.read_dir().ok()?.take(MOST);
    let names: Vec<String> = entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    suggest::nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
}

/// Reads a whole file, absolute or `builtin:`, of at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let shown = path.display().to_string();
    if let Some(embedded) = path.to_str().and_then(|p| p.strip_prefix(BUILTIN)) {
        let bytes = builtin::file(embedded).ok_or(FileError::Missing { path: shown, near: None })?;
        return Ok(bytes.to_vec());
    }
    let file = open(path)?;
    let unreadable = |e: std::io::Error| FileError::Unreadable { path: shown.clone(), why: e.to_string() };
    let mut bytes = vec![];
    file.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        return Err(FileError::TooLarge { path: shown, limit });
    }
    Ok(bytes)
}

/// Opens a regular file on disk, and nothing else.
pub fn open(path: &Path) -> Result<std::fs::File, FileError> {
    let shown = path.display().to_string();
    let unreadable = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => FileError::Missing { path: shown.clone(), near: near(path) },
        _ => FileError::Unreadable { path: shown.clone(), why: e.to_string() },
    };
    // A pipe or a device could wait or go on for ever: a pipe already when it is opened.
    regular(&std::fs::metadata(path).map_err(unreadable)?, &shown)?;
    let file = std::fs::File::open(path).map_err(unreadable)?;
    // What lies there may have changed in between.
    regular(&file.metadata().map_err(unreadable)?, &shown)?;
    Ok(file)
}

fn regular(found: &std::fs::Metadata, path: &str) -> Result<(), FileError> {
    use std::os::unix::fs::FileTypeExt;
    let kind = found.file_type();
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => return Err(FileError::IsFolder { path: path.to_owned() }),
        _ if kind.is_fifo() => "a pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(FileError::Unreadable { path: path.to_owned(), why: format!("it is {what}, not a regular file") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("in");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(outer.path().join("secret.jsonl"), "x").unwrap();
        std::fs::write(inner.join("rows.jsonl"), "x").unwrap();
        std::os::unix::fs::symlink(outer.path().join("secret.jsonl"), inner.join("link.jsonl")).unwrap();
        let root = Root::on_disk(&inner).unwrap();
        assert!(root.resolve("rows.jsonl").unwrap().is_absolute());
        assert!(root.resolve("./x/../rows.jsonl").is_err());
        for outside in ["../secret.jsonl", "link.jsonl", "/etc/passwd", "/nope", "a/../../in/rows.jsonl", "../nope"] {
            assert!(matches!(root.resolve(outside), Err(FileError::LeavesRoot { .. })), "{outside}");
        }
        let missing = root.resolve("row.jsonl").unwrap_err();
        assert!(matches!(missing, FileError::Missing { near: Some(near), .. } if near == "rows.jsonl"));
        assert!(matches!(root.resolve("."), Err(FileError::IsFolder { .. })));
    }

    #[test]
    fn embedded_files_are_reached_from_any_root() {
        let root = Root::embedded("suites");
        assert_eq!(root.resolve("smoke.yaml").unwrap(), PathBuf::from("builtin:suites/smoke.yaml"));
        let root = Root::embedded("");
        assert!(matches!(root.resolve("../x"), Err(FileError::LeavesRoot { .. })));
        assert!(matches!(root.resolve("suites/smoek.yaml"), Err(FileError::Missing { near: Some(_), .. })));
        assert!(read(Path::new("builtin:suites/smoke.yaml"), 1 << 20).unwrap().starts_with(b"#"));
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("rows.jsonl");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(read(&pipe, 10).unwrap_err().to_string().ends_with("it is a pipe, not a regular file"));
        assert!(read(Path::new("/dev/zero"), 10).unwrap_err().to_string().contains("it is a device"));
    }

    #[test]
    fn reading_is_bounded() {
        assert!(matches!(read(Path::new("/dev/zero"), 10), Err(FileError::Unreadable { .. })));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0_u8; 11]).unwrap();
        assert!(matches!(read(file.path(), 10), Err(FileError::TooLarge { .. })));
    }
}
