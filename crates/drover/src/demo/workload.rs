//! What the demo's writers do: a small shop, changed in every way that tends to break replication.
//!
//! Several writer processes work on one database. Each notes in `writer_log`, inside the same transaction, how many row
//! changes it has made, so that a writer that was killed goes on where its last commit left it.

use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use std::time::{Duration, Instant};

/// Tables of the workload, in an order in which parents come first.
pub const TABLES: [&str; 4] = ["customer", "purchase", "purchase_line", "writer_log"];

const SCHEMA: &str = include_str!("schema.sql");

/// How long a connection waits for a lock that another process holds.
const LOCK_WAIT: Duration = Duration::from_secs(60);

/// Keys that a writer remembers for updates and deletes; older ones are left alone. Bounds its memory.
const KEYS_MAX: usize = 20_000;

/// Creates an empty shop in a new database file.
pub fn create(path: &Path) -> rusqlite::Result<()> {
    let connection = open(path)?;
    connection.execute_batch(SCHEMA)
}

/// Opens a database of the demo: WAL, foreign keys on, patient with locks.
pub fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(LOCK_WAIT)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

/// One writer.
pub struct Writer {
    connection: Connection,
    random: fastrand::Rng,
    number: u32,
    /// Row changes committed so far, by this process or by earlier ones with the same number.
    total: i64,
    /// Next unused number for new keys.
    fresh: i64,
    customers: Vec<i64>,
    purchases: Vec<String>,
}

impl Writer {
    /// Takes up the work of writer `number` where its last commit left it.
    pub fn open(path: &Path, number: u32, seed: u64) -> rusqlite::Result<Writer> {
        let connection = open(path)?;
        let total: i64 = connection.query_row(
            "SELECT coalesce(max(total), 0) FROM writer_log WHERE writer = ?1",
            [number],
            |row| row.get(0),
        )?;
        let first = i64::from(number) << 32;
        let keys = "SELECT id FROM customer WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT ?3";
        let customers = connection
            .prepare(keys)?
            .query_map(params![first, first + (1 << 32) - 1, KEYS_MAX as i64], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<i64>>>()?;
        let numbers = "SELECT number FROM purchase WHERE number BETWEEN ?1 AND ?2 ORDER BY number DESC LIMIT ?3";
        let purchases = connection
            .prepare(numbers)?
            .query_map(params![format!("P{number:02}-"), format!("P{number:02}."), KEYS_MAX as i64], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<String>>>()?;
        // Every change takes at most one fresh number, so counting on from twice the total repeats none.
        let fresh = total * 2 + 1;
        let random = fastrand::Rng::with_seed(seed ^ (u64::from(number) << 48) ^ total as u64);
        Ok(Writer { connection, random, number, total, fresh, customers, purchases })
    }

    /// Works until `rows` changes are committed, at most `pace` of them a second (0: no limit).
    pub fn run(&mut self, rows: i64, pace: i64) -> rusqlite::Result<()> {
        let (start, before) = (Instant::now(), self.total);
        while self.total < rows {
            self.transaction()?;
            if pace > 0 {
                let due = Duration::from_secs_f64((self.total - before) as f64 / pace as f64);
                std::thread::sleep(due.saturating_sub(start.elapsed()));
            }
        }
        Ok(())
    }

    /// One transaction of 1 to some 40 row changes over all tables.
    fn transaction(&mut self) -> rusqlite::Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut changes = 1;
        for _ in 0..self.random.u32(1..=8) {
            changes += self.step()? as i64;
        }
        self.total += changes;
        let committed = process::clock::now().unix_micros;
        self.connection
            .prepare_cached("INSERT INTO writer_log (writer, changes, total, committed) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![self.number, changes, self.total, committed])?;
        self.connection.execute_batch("COMMIT")
    }

    fn step(&mut self) -> rusqlite::Result<usize> {
        match self.random.u32(0..100) {
            0..=14 => self.insert_customer(),
            15..=49 => self.insert_purchase(),
            50..=64 => self.update_customer(),
            65..=84 => self.update_lines(),
            85..=89 => self.change_purchase_number(),
            90..=91 => self.change_customer_id(),
            92..=93 => self.replace_customer(),
            94..=98 => self.delete_purchase(),
            _ => self.delete_customer(),
        }
    }

    fn insert_customer(&mut self) -> rusqlite::Result<usize> {
        let id = self.fresh_customer();
        let photo = self.bytes();
        let credit = self.random.bool().then(|| f64::from(self.random.i32(-1_000_000..1_000_000)) / 7.0);
        let name = self.random.bool().then(|| self.text());
        self.connection
            .prepare_cached("INSERT INTO customer (id, email, name, credit, photo) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![id, format!("{id}@example.org"), name, credit, photo])?;
        remember(&mut self.customers, id, &mut self.random);
        Ok(1)
    }

    fn insert_purchase(&mut self) -> rusqlite::Result<usize> {
        let Some(customer) = self.random.choice(&self.customers).copied() else { return self.insert_customer() };
        let number = self.fresh_purchase();
        let lines = self.random.u32(0..=4);
        self.connection
            .prepare_cached(
                "INSERT INTO purchase (number, customer, placed, total) VALUES (?1, ?2, datetime('now'), ?3)",
            )?
            .execute(params![number, customer, lines * 10])?;
        for line in 1..=lines {
            let (item, price) = (self.text(), f64::from(self.random.u32(1..100_000)) / 100.0);
            self.connection
                .prepare_cached("INSERT INTO purchase_line VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute(params![number, line, item, self.random.u32(1..9), price])?;
        }
        remember(&mut self.purchases, number, &mut self.random);
        Ok(1 + lines as usize)
    }

    /// Writes every storage class into a column without a declared type, and NULLs.
    fn update_customer(&mut self) -> rusqlite::Result<usize> {
        let Some(id) = self.random.choice(&self.customers).copied() else { return self.insert_customer() };
        let remark = match self.random.u32(0..5) {
            0 => rusqlite::types::Value::Null,
            1 => self.random.i64(..).into(),
            2 => f64::from_bits(self.random.u64(..) & !(0x7FF << 52) | (0x3FF << 52)).into(),
            3 => self.text().into(),
            _ => self.bytes().unwrap_or_default().into(),
        };
        let name = self.random.bool().then(|| self.text());
        self.connection
            .prepare_cached("UPDATE customer SET remark = ?2, name = ?3 WHERE id = ?1")?
            .execute(params![id, remark, name])
    }

    fn update_lines(&mut self) -> rusqlite::Result<usize> {
        let Some(number) = self.random.choice(&self.purchases).cloned() else { return self.insert_purchase() };
        let changed = self
            .connection
            .prepare_cached(
                "UPDATE purchase_line SET quantity = quantity + 1, price = price * 1.01 WHERE purchase = ?1",
            )?
            .execute([&number])?;
        let total = "UPDATE purchase SET note = ?2, total =
                     (SELECT sum(quantity * price) FROM purchase_line WHERE purchase = ?1) WHERE number = ?1";
        let note = self.text();
        let also_changed = self.connection.prepare_cached(total)?.execute(params![number, note])?;
        Ok(changed + also_changed)
    }

    fn change_purchase_number(&mut self) -> rusqlite::Result<usize> {
        if self.purchases.is_empty() {
            return self.insert_purchase();
        }
        let place = self.random.usize(0..self.purchases.len());
        let number = self.fresh_purchase();
        let changed = self
            .connection
            .prepare_cached("UPDATE purchase SET number = ?2 WHERE number = ?1")?
            .execute(params![self.purchases[place], number])?;
        self.purchases[place] = number;
        Ok(changed)
    }

    fn change_customer_id(&mut self) -> rusqlite::Result<usize> {
        if self.customers.is_empty() {
            return self.insert_customer();
        }
        let place = self.random.usize(0..self.customers.len());
        let id = self.fresh_customer();
        let changed = self
            .connection
            .prepare_cached("UPDATE customer SET id = ?2 WHERE id = ?1")?
            .execute(params![self.customers[place], id])?;
        self.customers[place] = id;
        Ok(changed)
    }

    /// A REPLACE that evicts a row through the second unique index: SQLite runs no delete trigger for it by default.
    fn replace_customer(&mut self) -> rusqlite::Result<usize> {
        let Some(id) = self.random.choice(&self.customers).copied() else { return self.insert_customer() };
        let email: Option<String> = self
            .connection
            .prepare_cached("SELECT email FROM customer WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        let Some(email) = email else { return Ok(0) };
        self.customers.retain(|known| *known != id);
        let replacement = self.fresh_customer();
        let changed = self
            .connection
            .prepare_cached("INSERT OR REPLACE INTO customer (id, email, name) VALUES (?1, ?2, 'replaced')")?
            .execute(params![replacement, email])?;
        self.customers.push(replacement);
        self.forget_orphans()?;
        Ok(changed)
    }

    fn delete_purchase(&mut self) -> rusqlite::Result<usize> {
        if self.purchases.is_empty() {
            return self.insert_purchase();
        }
        let place = self.random.usize(0..self.purchases.len());
        let number = self.purchases.swap_remove(place);
        self.connection.prepare_cached("DELETE FROM purchase WHERE number = ?1")?.execute([number])
    }

    fn delete_customer(&mut self) -> rusqlite::Result<usize> {
        if self.customers.is_empty() {
            return self.insert_customer();
        }
        let place = self.random.usize(0..self.customers.len());
        let id = self.customers.swap_remove(place);
        let changed = self.connection.prepare_cached("DELETE FROM customer WHERE id = ?1")?.execute([id])?;
        self.forget_orphans()?;
        Ok(changed)
    }

    /// Purchases go with their customer; a few stale keys do no harm, because a change of an absent row changes nothing.
    fn forget_orphans(&mut self) -> rusqlite::Result<()> {
        if self.purchases.len() < KEYS_MAX / 2 {
            return Ok(());
        }
        let mut exists = self.connection.prepare_cached("SELECT 1 FROM purchase WHERE number = ?1")?;
        let mut kept = Vec::with_capacity(KEYS_MAX);
        for number in self.purchases.drain(..).skip(KEYS_MAX / 4) {
            if exists.exists([&number])? {
                kept.push(number);
            }
        }
        drop(exists);
        self.purchases = kept;
        Ok(())
    }

    fn fresh_customer(&mut self) -> i64 {
        self.fresh += 1;
        (i64::from(self.number) << 32) + self.fresh
    }

    fn fresh_purchase(&mut self) -> String {
        self.fresh += 1;
        format!("P{:02}-{:09}", self.number, self.fresh)
    }

    fn text(&mut self) -> String {
        const WORDS: [&str; 8] = ["Äpfel", "it's", "x,y;z", "", "línea\nnueva", "ключ", "🐂🐄", "plain words"];
        format!("{} {}", WORDS[self.random.usize(0..WORDS.len())], self.random.u32(..))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = if self.random.u32(0..50) == 0 { 20_000 } else { self.random.usize(0..200) };
        self.random.bool().then(|| std::iter::repeat_with(|| self.random.u8(..)).take(length).collect())
    }
}

/// Remembers a key; when the memory is full it takes the place of another one.
fn remember<T>(keys: &mut Vec<T>, key: T, random: &mut fastrand::Rng) {
    if keys.len() < KEYS_MAX {
        keys.push(key);
    } else {
        let place = random.usize(0..keys.len());
        keys[place] = key;
    }
}
