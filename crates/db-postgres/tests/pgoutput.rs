//! The decoder against what a real server says.

use crate::server::{Cluster, ClusterOptions};
use bytes::Bytes;
use db_postgres::pgoutput::{Cell, Message, OldImage, ReplicaIdentity, Tuple, decode};
use proptest::prelude::*;
use std::sync::OnceLock;

const WORK: &str = "
    CREATE TABLE t (a int PRIMARY KEY, b text, c bytea);
    ALTER TABLE t ALTER b SET STORAGE EXTERNAL;
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TABLE f (m mood, n numeric(10, 2)); ALTER TABLE f REPLICA IDENTITY FULL;
    CREATE TABLE i (k int NOT NULL UNIQUE, v text); ALTER TABLE i REPLICA IDENTITY USING INDEX i_k_key;
    CREATE TABLE n (v text); ALTER TABLE n REPLICA IDENTITY NOTHING;
    CREATE PUBLICATION p FOR TABLE t, f, i; CREATE PUBLICATION q FOR TABLE n WITH (publish = 'insert, truncate');
    SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true);
    INSERT INTO t VALUES (1, repeat('x', 20000), '\\xdead'), (2, NULL, '');
    UPDATE t SET c = NULL WHERE a = 1;
    UPDATE t SET a = 3 WHERE a = 1;
    DELETE FROM t WHERE a = 3;
    INSERT INTO f VALUES ('ok', 1.50); UPDATE f SET m = NULL; DELETE FROM f;
    INSERT INTO i VALUES (1, 'v'); UPDATE i SET k = 2; DELETE FROM i;
    INSERT INTO n VALUES ('ключ');
    SELECT pg_logical_emit_message(true, 'prefix', 'content');
    TRUNCATE t, n RESTART IDENTITY CASCADE;
    SELECT pg_replication_origin_create('o'); SELECT pg_replication_origin_session_setup('o');
    INSERT INTO t VALUES (9); SELECT pg_replication_origin_session_reset();";

const STREAMED: &str = "
    BEGIN; INSERT INTO t SELECT i, 'v', NULL FROM generate_series(100, 3000) AS i;
    SAVEPOINT s; INSERT INTO t SELECT i FROM generate_series(3001, 6000) AS i; ROLLBACK TO s;
    ALTER TABLE t ADD d int DEFAULT 7; INSERT INTO t SELECT i FROM generate_series(6001, 9000) AS i; COMMIT;
    BEGIN; INSERT INTO t SELECT i FROM generate_series(10001, 13000) AS i; PREPARE TRANSACTION 'one';
    COMMIT PREPARED 'one';
    BEGIN; INSERT INTO t VALUES (20000); PREPARE TRANSACTION 'two'; ROLLBACK PREPARED 'two';";

/// Messages of the plugin for both kinds of work, with two-phase commit and streaming of open transactions.
fn messages() -> &'static Vec<Bytes> {
    static MESSAGES: OnceLock<Vec<Bytes>> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        let settings = [("logical_decoding_work_mem", "64kB"), ("max_prepared_transactions", "5")];
        let cluster = Cluster::start(&ClusterOptions {
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            ..ClusterOptions::default()
        });
        let plain = |sql: &str| {
            sql.split(';').map(str::trim).filter(|sql| !sql.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        // Statements of one session, each a transaction of its own.
        let arguments: Vec<String> = plain(WORK).into_iter().flat_map(|sql| ["-c".to_owned(), sql]).collect();
        let run = |arguments: &[String]| {
            let output = cluster
                .command("psql")
                .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d"])
                .arg(format!(
                    "host={} port={} user=postgres dbname=postgres",
                    cluster.directory().display(),
                    cluster.port()
                ))
                .args(arguments)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        run(&arguments);
        run(&plain(STREAMED).into_iter().flat_map(|sql| ["-c".to_owned(), sql]).collect::<Vec<_>>());
        let text = cluster.psql(
            "postgres",
            "SELECT encode(data, 'hex') FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, 'proto_version', '3', \
             'publication_names', 'p,q', 'messages', 'true', 'streaming', 'on', 'two_phase', 'on')",
        );
        text.lines()
            .map(|line| {
                (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap()).collect()
            })
            .collect()
    })
}

fn text(tuple: &Tuple<'_>) -> Vec<String> {
    tuple
        .cells()
        .map(|cell| match cell {
            Cell::Null => "NULL".to_owned(),
            Cell::Unchanged => "~".to_owned(),
            Cell::Text(range) => String::from_utf8(tuple.message()[range].to_vec()).unwrap().chars().take(10).collect(),
            Cell::Binary(_) => panic!("text was asked for"),
        })
        .collect()
}

fn old(image: &OldImage<'_>) -> String {
    match image {
        OldImage::None => "none".to_owned(),
        OldImage::Key(tuple) => format!("key {}", text(tuple).join(",")),
        OldImage::Full(tuple) => format!("full {}", text(tuple).join(",")),
    }
}

#[test]
fn every_message_of_a_server_decodes_to_what_was_done() {
    let mut told = Vec::new();
    let mut names = std::collections::HashMap::new();
    let mut streaming = false;
    for bytes in messages() {
        let message = decode(bytes, streaming).unwrap();
        match message {
            Message::Begin { .. } | Message::Commit { .. } => {}
            Message::Origin { name, .. } => told.push(format!("origin {name}")),
            Message::Relation(relation) => {
                let keys: String =
                    relation.columns.iter().map(|column| if column.is_key { 'k' } else { '.' }).collect();
                let wanted = match relation.name {
                    "t" => ReplicaIdentity::Default,
                    "f" => ReplicaIdentity::Full,
                    "i" => ReplicaIdentity::Index,
                    _ => ReplicaIdentity::Nothing,
                };
                assert_eq!(relation.identity, wanted);
                if names.insert(relation.oid, relation.name.to_owned()).is_none() {
                    told.push(format!("relation {}.{} {keys}", relation.schema, relation.name));
                }
            }
            Message::Type { name, schema, .. } => told.push(format!("type {schema}.{name}")),
            Message::Insert { relation, new, .. } => {
                if !streaming {
                    told.push(format!("insert {} {}", names[&relation], text(&new).join(",")));
                }
            }
            Message::Update { relation, old: before, new, .. } => {
                told.push(format!("update {} {} -> {}", names[&relation], old(&before), text(&new).join(",")));
            }
            Message::Delete { relation, old: before, .. } => {
                told.push(format!("delete {} {}", names[&relation], old(&before)))
            }
            Message::Truncate { relations, options, .. } => {
                let tables: Vec<&str> = relations.iter().map(|relation| names[relation].as_str()).collect();
                told.push(format!("truncate {} {} {}", tables.join(","), options.cascade, options.restart_identity));
            }
            Message::Logical { transactional, prefix, content, .. } => {
                told.push(format!("message {transactional} {prefix} {}", String::from_utf8_lossy(content)));
            }
            Message::StreamStart { .. } => streaming = true,
            Message::StreamStop => streaming = false,
            Message::StreamCommit { .. } => told.push("stream commit".to_owned()),
            Message::StreamAbort { transaction, subtransaction } => {
                told.push(format!("stream abort, whole {}", transaction == subtransaction))
            }
            Message::BeginPrepare(prepared) => told.push(format!("begin prepare {}", prepared.name)),
            Message::Prepare(prepared) => told.push(format!("prepare {}", prepared.name)),
            Message::CommitPrepared(prepared) => told.push(format!("commit prepared {}", prepared.name)),
            Message::RollbackPrepared(prepared) => told.push(format!("rollback prepared {}", prepared.name)),
            Message::StreamPrepare(prepared) => told.push(format!("stream prepare {}", prepared.name)),
        }
    }
    assert_eq!(
        told,
        [
            "relation public.t k..",
            "insert t 1,xxxxxxxxxx,\\xdead",
            "insert t 2,NULL,\\x",
            "update t none -> 1,~,NULL",
            "update t key 1,NULL,NULL -> 3,~,NULL",
            "delete t key 3,NULL,NULL",
            "type public.mood",
            "relation public.f kk",
            "insert f ok,1.50",
            "update f full ok,1.50 -> NULL,1.50",
            "delete f full NULL,1.50",
            "relation public.i k.",
            "insert i 1,v",
            "update i key 1,NULL -> 2,v",
            "delete i key 2,NULL",
            "relation public.n .",
            "insert n ключ",
            "message true prefix content",
            "truncate t,n true true",
            "origin o",
            "insert t 9,NULL,NULL",
            "stream abort, whole false",
            "stream commit",
            "stream prepare one",
            "commit prepared one",
            "begin prepare two",
            "insert t 20000,NULL,NULL,7",
            "prepare two",
            "rollback prepared two",
        ]
    );
}

proptest! {
    /// Real messages with bytes changed, cut or repeated.
    #[test]
    fn a_damaged_message_never_makes_the_decoder_panic(
        choice: prop::sample::Index,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        streaming: bool,
    ) {
        let all = messages();
        let mut bytes = all[choice.index(all.len())].to_vec();
        bytes.truncate(400);
        for (place, value) in edits {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let bytes = Bytes::from(bytes);
        if let Ok(Message::Insert { new, .. }) = decode(&bytes, streaming) {
            prop_assert_eq!(new.cells().count(), new.len());
            for cell in new.cells() {
                if let Cell::Text(range) | Cell::Binary(range) = cell {
                    prop_assert!(bytes.get(range).is_some());
                }
            }
        }
    }
}
