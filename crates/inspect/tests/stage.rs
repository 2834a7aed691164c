//! A session over files in memory.

use change::Timestamp;
use inspect::{Error, Flow, Hands, Progress, Session};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use trail::cipher::MasterKeys;
use trail::format::bytes::Order;
use trail::format::record::{self, Envelope, Object, RecordHeader, operation};
use trail::storage::{Forgetful, Storage};

/// 2023-11-14 22:13:20 UTC.
pub const NOW: Timestamp = Timestamp { unix_micros: 1_700_000_000_000_000 };

/// What a session's hands are told and have seen.
#[derive(Default)]
pub struct World {
    pub progress: RefCell<Vec<Progress>>,
    pub interrupt_after: Cell<Option<usize>>,
    pub programs: RefCell<Vec<String>>,
    pub keys: RefCell<Option<Arc<dyn MasterKeys>>>,
}

struct TestHands {
    storage: Arc<Forgetful>,
    world: Rc<World>,
}

impl Hands for TestHands {
    fn directory(&self, _path: &Path) -> Arc<dyn Storage> {
        self.storage.clone()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        Path::new("/home").join(path)
    }

    fn is_same(&self, one: &Path, other: &Path) -> bool {
        one == other
    }

    fn now(&self) -> Timestamp {
        NOW
    }

    /// +01:00, so that LOCAL and GMT differ.
    fn local_offset(&self, _instant: Timestamp) -> i32 {
        3600
    }

    fn modified(&self, _path: &Path) -> Option<Timestamp> {
        Some(NOW)
    }

    fn keys(&self) -> Result<Arc<dyn MasterKeys>, String> {
        self.world.keys.borrow().clone().ok_or_else(|| "no wallet is at hand".to_owned())
    }

    fn run_program(&self, command: &str) -> Result<(), String> {
        self.world.programs.borrow_mut().push(command.to_owned());
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        match self.world.interrupt_after.get() {
            None => false,
            Some(0) => true,
            Some(rest) => {
                self.world.interrupt_after.set(Some(rest - 1));
                false
            }
        }
    }

    fn progress(&self, progress: Progress) {
        self.world.progress.borrow_mut().push(progress);
    }
}

/// Files and a session over them.
pub struct Stage {
    pub storage: Arc<Forgetful>,
    pub world: Rc<World>,
    pub session: Session,
}

impl Stage {
    pub fn new() -> Stage {
        let (storage, world) = (Arc::new(Forgetful::new(0)), Rc::new(World::default()));
        let hands = TestHands { storage: Arc::clone(&storage), world: Rc::clone(&world) };
        Stage { storage, world, session: Session::new(Box::new(hands), PathBuf::from(".")) }
    }

    /// A stage with one file, which is open.
    pub fn with(bytes: &[u8]) -> Stage {
        let mut stage = Stage::new();
        stage.put("aa000000000", bytes);
        stage.run("OPEN aa000000000");
        stage
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        self.storage.create(name).expect("creates").write_at(bytes, 0).expect("writes");
    }

    pub fn content(&self, name: &str) -> Vec<u8> {
        self.storage.read_whole(name).expect("reads")
    }

    pub fn execute(&mut self, line: &str) -> (String, Result<Flow, Error>) {
        let mut text = Vec::new();
        let done = self.session.execute(line, &mut text);
        (String::from_utf8(text).expect("is text"), done)
    }

    /// Runs commands that must succeed.
    pub fn run(&mut self, line: &str) -> String {
        let (text, done) = self.execute(line);
        done.unwrap_or_else(|error| panic!("{line}: {error}"));
        text
    }

    /// Runs commands that must fail, and returns why.
    pub fn refuses(&mut self, line: &str) -> String {
        let (text, done) = self.execute(line);
        match done {
            Ok(_) => panic!("{line} was done: {text}"),
            Err(error) => error.to_string(),
        }
    }
}

/// A record, as another product writes them: without a checksum.
pub fn foreign(order: Order, header: RecordHeader, object: Object<'_>, data: &[u8]) -> Vec<u8> {
    foreign_with(order, header, object, data, &[])
}

/// A record with tokens.
pub fn foreign_with(order: Order, header: RecordHeader, object: Object<'_>, data: &[u8], tokens: &[u8]) -> Vec<u8> {
    let header = RecordHeader { data_length: u16::try_from(data.len()).expect("fits"), ..header };
    let envelope = Envelope { object, tokens, user: &[], has_checksum: false };
    let mut bytes = Vec::new();
    record::put(&mut bytes, order, &header, &envelope, |buffer| buffer.extend_from_slice(data));
    bytes
}

/// A record of so many bytes that says nothing.
pub fn filler(order: Order, length: usize) -> Vec<u8> {
    let header = RecordHeader::new(operation::COMMENT, 0, 0);
    let empty = foreign(order, header, Object::Name(b""), b" ").len() - 1;
    foreign(order, header, Object::Name(b""), &vec![b' '; length - empty])
}
