-- A small shop: the tables of the demo's workload.
CREATE TABLE customer (
    id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE, name TEXT, credit REAL, photo BLOB, remark);
CREATE TABLE purchase (
    number TEXT PRIMARY KEY,
    customer INTEGER NOT NULL REFERENCES customer (id) ON UPDATE CASCADE ON DELETE CASCADE,
    placed TEXT NOT NULL, total NUMERIC, note TEXT);
CREATE INDEX purchase_customer ON purchase (customer);
CREATE TABLE purchase_line (
    purchase TEXT NOT NULL REFERENCES purchase (number) ON UPDATE CASCADE ON DELETE CASCADE,
    line INTEGER NOT NULL, item TEXT, quantity INTEGER, price REAL, PRIMARY KEY (purchase, line)) WITHOUT ROWID;
CREATE TABLE writer_log (
    entry INTEGER PRIMARY KEY, writer INTEGER NOT NULL, changes INTEGER NOT NULL, total INTEGER NOT NULL,
    committed INTEGER NOT NULL);
CREATE INDEX writer_log_writer ON writer_log (writer, total);
