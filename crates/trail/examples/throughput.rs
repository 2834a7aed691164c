//! Rows and bytes a second that one core encodes into a trail and decodes from it, as one line of JSON: plain, encrypted,
//! compressed, and both, of short and of long rows.
//!
//! The storage keeps only the bytes, in memory, so that the disk is not measured.
//!
//! `cargo run --release -p trail --example throughput [ROWS]`

mod load;

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trail::cipher::{Algorithm, KeyError, MASTER_KEY_BYTES, MasterKey, MasterKeys};
use trail::storage::{File, Lock, Storage, Watch};
use trail::{Cover, Reader, Record, Start, Writer};

const ROUNDS: usize = 3;

/// Bytes of the note of every other long row.
const LONG_NOTE: usize = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    let all_rows: u64 = std::env::args().nth(1).map_or(Ok(2_000_000), |text| text.parse())?;
    let mut lines = Vec::new();
    for (name, is_encrypted, is_compressed, note) in [
        ("plain", false, false, load::SHORT_NOTE),
        ("encrypted", true, false, load::SHORT_NOTE),
        ("compressed", false, true, load::SHORT_NOTE),
        ("both", true, true, load::SHORT_NOTE),
        ("long rows: plain", false, false, LONG_NOTE),
        ("long rows: encrypted", true, false, LONG_NOTE),
        ("long rows: compressed", false, true, LONG_NOTE),
        ("long rows: both", true, true, LONG_NOTE),
    ] {
        let rows = if note == LONG_NOTE { all_rows / 5 } else { all_rows };
        let changes = load::changes(note);
        let encryption = is_encrypted.then(|| (Algorithm::Aes256, Arc::new(OneKey) as Arc<dyn MasterKeys>));
        let cover = Cover { encryption, is_compressed };
        let (mut encode, mut decode) = (Duration::MAX, Duration::MAX);
        let mut bytes = 0;
        for _ in 0..ROUNDS {
            let storage = Memory::default();
            let start = Instant::now();
            let mut writer = Writer::open(Arc::new(storage.clone()), load::options(cover.clone()))?;
            load::write(&mut writer, &changes, rows, |_, _| Ok(()))?;
            writer.close()?;
            encode = encode.min(start.elapsed());
            bytes = storage.bytes();
            let start = Instant::now();
            let read = read(&storage)?;
            decode = decode.min(start.elapsed());
            assert_eq!(read, rows, "every row comes back");
        }
        let rate = |amount: f64, time: Duration| amount / time.as_secs_f64();
        lines.push(format!(
            "{{\"name\":\"{name}\",\"rows\":{rows},\"bytes\":{bytes},\"encode_rows_s\":{:.0},\"encode_gb_s\":{:.3},\"decode_rows_s\":{:.0},\"decode_gb_s\":{:.3}}}",
            rate(rows as f64, encode),
            rate(bytes as f64 / 1e9, encode),
            rate(rows as f64, decode),
            rate(bytes as f64 / 1e9, decode),
        ));
    }
    println!("{{\"covers\":[{}]}}", lines.join(","));
    Ok(())
}

fn read(storage: &Memory) -> Result<u64, Box<dyn Error>> {
    let keys: Arc<dyn MasterKeys> = Arc::new(OneKey);
    let storage = Arc::new(storage.clone());
    let mut reader = Reader::open_with(storage, load::trail_name(), Start::Beginning, &[], Some(keys))?;
    let mut rows = 0;
    while let Some(entry) = reader.next()? {
        if let Record::Change { change, .. } = entry.record {
            rows += u64::from(std::hint::black_box(&change.operation).value_bytes() > 0);
        }
    }
    Ok(rows)
}

/// A wallet with one master key.
struct OneKey;

impl MasterKeys for OneKey {
    fn current(&self) -> Result<MasterKey, KeyError> {
        self.find("K", 1)
    }

    fn find(&self, name: &str, version: u32) -> Result<MasterKey, KeyError> {
        Ok(MasterKey { name: name.to_owned(), version, secret: zeroize::Zeroizing::new([7; MASTER_KEY_BYTES]) })
    }
}

/// Files in memory that do nothing but keep bytes.
#[derive(Clone, Default)]
struct Memory {
    files: Arc<Mutex<BTreeMap<String, MemoryFile>>>,
}

#[derive(Clone, Default)]
struct MemoryFile(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn files(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, MemoryFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> io::Result<MemoryFile> {
        self.files().get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn bytes(&self) -> u64 {
        self.files().values().map(|file| file.bytes().len() as u64).sum()
    }
}

impl MemoryFile {
    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Memory {
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = MemoryFile::default();
        self.files().insert(name.to_owned(), file.clone());
        Ok(Box::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(self.find(name)?))
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.open(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files().remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let file = self.find(from)?;
        self.remove(from)?;
        self.files().insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn watch(&self, _name: &str) -> io::Result<Box<dyn Watch>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.create(name)?.write_at(bytes, 0)
    }

    fn read_whole(&self, name: &str) -> io::Result<Vec<u8>> {
        Ok(self.find(name)?.bytes().clone())
    }

    fn lock(&self, _name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        Ok(Some(Box::new(NoLock)))
    }

    fn place(&self) -> String {
        "memory".to_owned()
    }
}

struct NoLock;

impl Lock for NoLock {}

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, new: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.bytes();
        let (start, end) = (offset as usize, offset as usize + new.len());
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(new);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.bytes().resize(length as usize, 0);
        Ok(())
    }

    fn duplicate(&self) -> io::Result<Box<dyn File>> {
        Ok(Box::new(self.clone()))
    }
}
