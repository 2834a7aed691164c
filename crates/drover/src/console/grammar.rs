//! The console's commands, as one table.
//!
//! From [`COMMANDS`] come the parser, the help and the words of error messages. A command is
//! `VERB [OBJECT] [argument] {, OPTION [value]} [!]`.

use super::verb::{
    Verb, add, certificate, checkpoint_table, delete, error_queue, heartbeat, help, info, lag, login, path, purge,
    register, remote, send, start, stop, synchronize, trandata, wallet,
};

/// What a value must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Name of an Extract or Replicat: 1 to 8 characters.
    Group,
    /// A trail: a directory and two characters, such as `./dirdat/aa`.
    Trail,
    /// A single file in place of a trail, such as `./dirdat/orders.ext`.
    File,
    /// A table name, `schema.table` or `table`.
    Table,
    /// Where a database is, such as `sqlite:../shop.db`.
    Url,
    /// A whole number between two bounds.
    Number {
        /// Least value.
        least: u32,
        /// Greatest value.
        greatest: u32,
    },
    /// One word of any kind.
    Text,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// A number with its unit, in one word or two.
    Time,
    /// `IMMEDIATE`, `IN time` or `AT date time`.
    Moment,
    /// Every word up to the end of the command.
    Words,
}

/// A value with the name that help and errors use for it.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// Name in help.
    pub name: &'static str,
    /// What it must look like.
    pub shape: Shape,
    /// Whether the command makes sense without it.
    pub required: bool,
}

/// An option: a keyword, maybe with a value.
#[derive(Clone, Copy, Debug)]
pub struct Clause {
    /// Keyword, in upper case.
    pub keyword: &'static str,
    /// Its value, if it takes one.
    pub value: Option<Value>,
    /// Whether the command must have it.
    pub required: bool,
    /// One line for help.
    pub help: &'static str,
}

/// One command.
pub struct Form {
    /// First word, in upper case.
    pub verb: &'static str,
    /// Second word, in upper case; `None` for commands of one word.
    pub object: Option<&'static str>,
    /// What comes after these words.
    pub argument: Option<Value>,
    /// Options.
    pub clauses: &'static [Clause],
    /// What `!` means, where it is allowed.
    pub force: Option<&'static str>,
    /// One line: what it does.
    pub summary: &'static str,
    /// More for `HELP VERB OBJECT`.
    pub details: &'static str,
    /// A command that works.
    pub example: &'static str,
    /// Does it.
    pub run: Verb,
}

const fn required(name: &'static str, shape: Shape) -> Option<Value> {
    Some(Value { name, shape, required: true })
}

const KEY_VERSION: Shape = Shape::Number { least: 1, greatest: u32::MAX };
const VERSION: Clause = Clause {
    keyword: "VERSION",
    value: required("n", KEY_VERSION),
    required: false,
    help: "number of the version, see INFO MASTERKEY",
};
const GROUP: Option<Value> = required("group", Shape::Group);
const TRAIL: Option<Value> = required("trail", Shape::Trail);
const FILE: Option<Value> = required("file", Shape::File);
const TABLE: Option<Value> = required("table", Shape::Table);
/// Without it the one that GLOBALS names.
const CHECKPOINT_TABLE: Option<Value> = Some(Value { name: "table", shape: Shape::Table, required: false });
const TABLES: Option<Value> = required("schema.table", Shape::Table);
const SCHEMA: Option<Value> = required("schema", Shape::Table);

const TRANSACTION: Option<Value> = required("transaction", Shape::Text);
const OF_REPLICAT: Clause =
    Clause { keyword: "REPLICAT", value: GROUP, required: false, help: "only those of this Replicat" };

const EXTSEQNO: Clause = Clause {
    keyword: "EXTSEQNO",
    value: required("n", Shape::Number { least: 0, greatest: 999_999_999 }),
    required: false,
    help: "number of the file of the trail to begin with",
};

const EXTRBA: Clause = Clause {
    keyword: "EXTRBA",
    value: required("n", Shape::Number { least: 0, greatest: u32::MAX }),
    required: false,
    help: "byte in it, where a transaction begins: 0 by default",
};

const SHOWCH: Clause = Clause {
    keyword: "SHOWCH",
    value: Some(Value { name: "n", shape: Shape::Number { least: 0, greatest: 99 }, required: false }),
    required: false,
    help: "show the whole checkpoint, and with n also the n before it; after DBLOGIN to a PostgreSQL source, Recovery is what its slot says",
};

const FREQUENCY: Clause = Clause {
    keyword: "FREQUENCY",
    value: required("s", Shape::Number { least: 0, greatest: 7999 }),
    required: false,
    help: "seconds between two stamps, 60 by default, at most 7999; 0 pauses; PostgreSQL: 60 at least",
};
const RETENTION_TIME: Clause = Clause {
    keyword: "RETENTION_TIME",
    value: required("d", Shape::Number { least: 1, greatest: 2_147_483_646 }),
    required: false,
    help: "days that history is kept, 30 by default",
};
const PURGE_FREQUENCY: Clause = Clause {
    keyword: "PURGE_FREQUENCY",
    value: required("d", Shape::Number { least: 1, greatest: 199 }),
    required: false,
    help: "days between two purges of history, 1 by default, at most 199",
};
const TARGETONLY: Clause = Clause {
    keyword: "TARGETONLY",
    value: None,
    required: false,
    help: "heartbeats arrive here, and none are sent: no job stamps",
};
const NOTARGETONLY: Clause =
    Clause { keyword: "NOTARGETONLY", value: None, required: false, help: "heartbeats are sent, too; the default" };
const PARTITIONED: Clause = Clause {
    keyword: "PARTITIONED",
    value: None,
    required: false,
    help: "refused: the history of these products is not partitioned",
};
const NOPARTITIONED: Clause =
    Clause { keyword: "NOPARTITIONED", value: None, required: false, help: "history in one table; the default" };

const LAG: &[Clause] = &[
    Clause {
        keyword: "GLOBAL",
        value: None,
        required: false,
        help: "all that the view GG_LAG shows, whatever the group",
    },
    Clause { keyword: "HISTORY", value: None, required: false, help: "least, average and greatest lag of each day" },
    Clause {
        keyword: "PLOT",
        value: required("file", Shape::Url),
        required: false,
        help: "draw the history into this SVG file; a relative name counts from the home",
    },
];

const fn word(keyword: &'static str, help: &'static str) -> Clause {
    Clause { keyword, value: None, required: false, help }
}

const fn option(keyword: &'static str, name: &'static str, shape: Shape, help: &'static str) -> Clause {
    Clause { keyword, value: required(name, shape), required: false, help }
}

const STATUS: Clause = word("STATUS", "what it is doing, and where it stands");
const SEND_STOP: Clause = word("STOP", "end in good order; STOP EXTRACT and STOP REPLICAT also wait for the end");
const FORCESTOP: Clause = word("FORCESTOP", "end at once: a Replicat rolls back what is not committed");
const REPORT: Clause = word("REPORT", "write the statistics so far into the report");
const LOGEND: Clause = word("LOGEND", "YES when everything that there is was processed, else NO");
const GETLAG: Clause = word("GETLAG", "how far it is behind, as LAG shows it");

const SEND_EXTRACT: &[Clause] = &[
    STATUS,
    SEND_STOP,
    FORCESTOP,
    REPORT,
    word("ROLLOVER", "go on in a new trail file"),
    LOGEND,
    GETLAG,
    Clause {
        keyword: "SHOWTRANS",
        value: Some(Value { name: "xid", shape: Shape::Text, required: false }),
        required: false,
        help: "transactions that are open at the source, the oldest first; or this one",
    },
    option("COUNT", "n", Shape::Number { least: 1, greatest: u32::MAX }, "so many of them at most"),
    option("DURATION", "time", Shape::Time, "those that are open for so long: 90S, 20 MIN, 4H or 2D"),
    option("THRESHOLD", "n", Shape::Number { least: 1, greatest: u32::MAX }, "those with so many changes kept"),
    word("ALL", "every one of them, as without COUNT, DURATION and THRESHOLD"),
    word("TABULAR", "one line for each"),
    word("DETAIL", "with the session at the server, and bytes"),
    option("FILE", "path", Shape::Text, "into this file; a relative path counts from the home"),
    option("SKIPTRANS", "xid", Shape::Text, "leave this transaction out when it commits"),
    word("FORCE", "skip it without asking, as ! does"),
    option(
        "FORCETRANS",
        "xid",
        Shape::Text,
        "write what is kept of this open transaction, and leave out what it does later",
    ),
    word("BR", "something about Bounded Recovery:"),
    word("BRSTATUS", "how it stands"),
    option(
        "BRCHECKPOINT",
        "IMMEDIATE | IN time | AT date time",
        Shape::Moment,
        "take a checkpoint now, after a time such as 20M, or at a time (UTC) such as 2026-12-24 18:30",
    ),
    word("BRSTATS", "what it has done since the start"),
    word("BRSTART", "take checkpoints again"),
    word("BRSTOP", "take no more checkpoints"),
    option("BRINTERVAL", "time", Shape::Text, "time between two checkpoints from now on: 20M to 96H"),
];

const CERTIFICATE: Option<Value> = Some(Value { name: "name", shape: Shape::Text, required: false });

const REMOTE_MEGABYTES: Clause = Clause {
    keyword: "MEGABYTES",
    value: required("n", Shape::Number { least: 1, greatest: 2000 }),
    required: false,
    help: "size at which the next file is started: 1 to 2000, 500 by default",
};

const OF_PUMP: Clause = Clause {
    keyword: "EXTRACT",
    value: GROUP,
    required: false,
    help: "the Pump that writes it, where several write one of that name",
};

const PATH_TARGET: Clause = Clause {
    keyword: "TARGET",
    value: required("uri", Shape::Url),
    required: false,
    help: "wss://host:port/services/v2/targets?trail=bb: the receiver, and the trail in its dirdat",
};

const PATH_BEGIN: [Clause; 3] = [
    word("BEGIN", "where in the source trail; by default with its first file:"),
    option("SEQNO", "n", Shape::Number { least: 0, greatest: 999_999_999 }, "number of the file"),
    option(
        "RBA",
        "n",
        Shape::Number { least: 0, greatest: u32::MAX },
        "byte in it, where a transaction begins: 0 by default",
    ),
];

const PATH_OPTIONS: [Clause; 8] = [
    option("SIZEMB", "n", Shape::Number { least: 1, greatest: 2000 }, "megabytes of a target file: 500 by default"),
    option("COMPRESSION", "ON | OFF", Shape::Choice(&["ON", "OFF"]), "records are compressed with zstd on their way"),
    option(
        "THRESHOLD",
        "bytes",
        Shape::Number { least: 0, greatest: u32::MAX },
        "from so many bytes on; 1000 by default",
    ),
    option("BANDWIDTH", "size", Shape::Text, "most bytes a second, such as 500K or 2M"),
    option("CERTIFICATE", "name", Shape::Text, "the certificate of this home that is shown; drover by default"),
    option(
        "RULE",
        "PASSTHRU | FILTER",
        Shape::Choice(&["PASSTHRU", "FILTER"]),
        "what is sent: everything, or some tables:",
    ),
    option(
        "OBJECTNAMES",
        "names",
        Shape::Text,
        "tables; several in single quotes with blanks between them, * stands for any characters",
    ),
    option(
        "ACTION",
        "INCLUDE | EXCLUDE",
        Shape::Choice(&["INCLUDE", "EXCLUDE"]),
        "whether these are sent, or all others",
    ),
];

/// The clauses of ADD DISTPATH.
const ADD_PATH: [Clause; 13] = {
    let [begin, sequence, rba] = PATH_BEGIN;
    let [size, compression, threshold, bandwidth, certificate, rule, names, action] = PATH_OPTIONS;
    let source = Clause {
        keyword: "SOURCE",
        value: required("uri", Shape::Url),
        required: true,
        help: "trail://localhost/services/v2/sources?trail=aa: a trail in dirdat of this home",
    };
    let target = Clause { required: true, ..PATH_TARGET };
    [source, target, begin, sequence, rba, size, compression, threshold, bandwidth, certificate, rule, names, action]
};

/// Those of ALTER DISTPATH.
const ALTER_PATH: [Clause; 12] = {
    let [begin, sequence, rba] = PATH_BEGIN;
    let [size, compression, threshold, bandwidth, certificate, rule, names, action] = PATH_OPTIONS;
    [PATH_TARGET, begin, sequence, rba, size, compression, threshold, bandwidth, certificate, rule, names, action]
};

const STATS: &[Clause] = &[
    word("TOTAL", "since the start of the process"),
    word("DAILY", "since midnight UTC"),
    word("HOURLY", "since the full hour"),
    word("LATEST", "since the last RESET"),
    word("RESET", "let LATEST begin anew, and show nothing"),
    option("TABLE", "schema.table", Shape::Table, "these tables only; * stands for any characters"),
    option("TOTALSONLY", "schema.table", Shape::Table, "one sum for all of these tables"),
];

/// Default of ADD EXTTRAIL's MEGABYTES.
pub const MEGABYTES_DEFAULT: u32 = 500;

/// All commands, in the order in which help lists them.
pub static COMMANDS: &[Form] = &[
    Form {
        verb: "DBLOGIN",
        object: None,
        argument: None,
        clauses: &[Clause {
            keyword: "SOURCEDB",
            value: required("url", Shape::Url),
            required: true,
            help: "the database, such as sqlite:../shop.db; a relative path counts from the home",
        }],
        force: None,
        summary: "Choose the database that the commands after it work on.",
        details: "Commands that touch a database need it; HELP of each says so. The login holds until the next DBLOGIN or the end of the commands.",
        example: "DBLOGIN SOURCEDB sqlite:../shop.db",
        run: login::login,
    },
    Form {
        verb: "REGISTER",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: &[],
        force: None,
        summary: "Register an Extract: install what capture needs in the source, before ADD EXTRACT.",
        details: "Needs DBLOGIN to the source. In PostgreSQL it makes a publication and a replication slot, and the server keeps \
                  its log from then on. ADD EXTRACT registers by itself where this was not done; after it, the group \
                  begins at the moment of ADD EXTRACT all the same.",
        example: "REGISTER EXTRACT e1",
        run: register::register,
    },
    Form {
        verb: "UNREGISTER",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: &[],
        force: Some("also take away what another home or a lost group of this name installed"),
        summary: "Take back what REGISTER EXTRACT installed, so that the source keeps no log for the group.",
        details: "Needs DBLOGIN to the source. The group must not exist any more: DELETE EXTRACT takes group and registration \
                  away together, and there is nothing left to do after it.",
        example: "UNREGISTER EXTRACT e1",
        run: register::unregister,
    },
    Form {
        verb: "ADD",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: &[
            Clause {
                keyword: "TRANLOG",
                value: None,
                required: true,
                help: "capture committed changes from the database's own log",
            },
            Clause {
                keyword: "BEGIN",
                value: required("start", Shape::Choice(&["NOW"])),
                required: true,
                help: "the first change to capture: NOW is the moment of this command, not of the first start",
            },
        ],
        force: None,
        summary: "Add an Extract: register capture in the database and create the group's checkpoint file.",
        details: "Needs DBLOGIN to the source. Captures the tables that dirprm/<group>.prm selects; without that file, all \
                  tables of the database. An ADD that was interrupted is repeated by giving it again, and undone by DELETE \
                  EXTRACT.",
        example: "ADD EXTRACT e1, TRANLOG, BEGIN NOW",
        run: add::extract,
    },
    Form {
        verb: "ADD",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: &[
            Clause { keyword: "EXTTRAILSOURCE", value: TRAIL, required: true, help: "the trail that is read" },
            EXTSEQNO,
            EXTRBA,
        ],
        force: None,
        summary: "Add a Pump: an Extract that reads a trail and writes its records into another one.",
        details: "Needs no DBLOGIN. Without EXTSEQNO it begins with the first file of the trail, which need not exist yet. The \
                  trail that it writes is given with ADD EXTTRAIL.",
        example: "ADD EXTRACT p1, EXTTRAILSOURCE ./dirdat/aa",
        run: add::pump,
    },
    Form {
        verb: "ADD",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: &[Clause {
            keyword: "EXTFILESOURCE",
            value: FILE,
            required: true,
            help: "the single file that is read",
        }],
        force: None,
        summary: "Add a Pump that reads a single file, and writes its records into a trail or another single file.",
        details: "As ADD EXTRACT with EXTTRAILSOURCE.",
        example: "ADD EXTRACT p1, EXTFILESOURCE ./dirdat/orders.ext",
        run: add::pump,
    },
    Form {
        verb: "ADD",
        object: Some("EXTTRAIL"),
        argument: TRAIL,
        clauses: &[
            Clause { keyword: "EXTRACT", value: GROUP, required: true, help: "the Extract that writes the trail" },
            Clause {
                keyword: "MEGABYTES",
                value: required("n", Shape::Number { least: 1, greatest: 2000 }),
                required: false,
                help: "size at which the next file is started: 1 to 2000, 500 by default",
            },
        ],
        force: None,
        summary: "Add a trail for an Extract to write.",
        details: "The name is a directory and two characters. The Extract's EXTTRAIL parameter must give the same name, letter \
                  for letter. A relative name counts from the home. Files of that trail must not exist yet.",
        example: "ADD EXTTRAIL ./dirdat/aa, EXTRACT e1, MEGABYTES 100",
        run: add::trail,
    },
    Form {
        verb: "ADD",
        object: Some("EXTFILE"),
        argument: FILE,
        clauses: &[Clause {
            keyword: "EXTRACT",
            value: GROUP,
            required: true,
            help: "the Extract that writes the file",
        }],
        force: None,
        summary: "Add a single file for an Extract to write, in place of a trail.",
        details: "The name has one or more than two characters. The Extract's EXTFILE parameter must give the same name, letter \
                  for letter. A relative name counts from the home. The file must not exist yet; it is as long as what is \
                  written to it.",
        example: "ADD EXTFILE ./dirdat/orders.ext, EXTRACT e1",
        run: add::trail,
    },
    Form {
        verb: "ADD",
        object: Some("RMTTRAIL"),
        argument: TRAIL,
        clauses: &[
            Clause { keyword: "EXTRACT", value: GROUP, required: true, help: "the Pump that writes the trail" },
            REMOTE_MEGABYTES,
        ],
        force: None,
        summary: "Add a trail in another home for a Pump to write.",
        details: "The Pump's RMTHOST says in which home; its RMTTRAIL must give the same name, letter for letter. The receiver of \
                  that home puts the trail into its dirdat, where no group may write one of that name.",
        example: "ADD RMTTRAIL ./dirdat/bb, EXTRACT p1",
        run: add::remote_trail,
    },
    Form {
        verb: "ADD",
        object: Some("RMTFILE"),
        argument: FILE,
        clauses: &[Clause { keyword: "EXTRACT", value: GROUP, required: true, help: "the Pump that writes the file" }],
        force: None,
        summary: "Add a single file in another home for a Pump to write, in place of a trail.",
        details: "The Pump must read a single file, too. Its RMTFILE must give the same name, letter for letter.",
        example: "ADD RMTFILE ./dirdat/orders.ext, EXTRACT p1",
        run: add::remote_trail,
    },
    Form {
        verb: "ADD",
        object: Some("CERTIFICATE"),
        argument: CERTIFICATE,
        clauses: &[Clause {
            keyword: "HOSTS",
            value: required("names", Shape::Text),
            required: false,
            help: "names and addresses of this host, with blanks between them in single quotes; by default its own name",
        }],
        force: None,
        summary: "Make a certificate with its key, by which other homes know this one.",
        details: "Puts <name>.crt and <name>.key into dircrd and shows the fingerprint; without a name they are called drover. The \
                  operator of another home gives the fingerprint to ADD PEER there. The host's names matter only where an authority \
                  is believed in place of a fingerprint.",
        example: "ADD CERTIFICATE",
        run: certificate::add,
    },
    Form {
        verb: "ADD",
        object: Some("PEER"),
        argument: required("name", Shape::Text),
        clauses: &[Clause {
            keyword: "FINGERPRINT",
            value: required("hex", Shape::Text),
            required: true,
            help: "SHA-256 of the certificate, as INFO CERTIFICATE and openssl x509 -fingerprint -sha256 show it; in single quotes \
                   where it has colons",
        }],
        force: None,
        summary: "Believe another home's certificate.",
        details: "Whoever has the key of that certificate may send trails to this home, and receives what this home sends to its \
                  host. The name is what this home calls it; a trail that it sends belongs to that name. Adding another fingerprint \
                  to the same name lets a renewed certificate take the old one's place. Running processes see it at the next \
                  connection.",
        example: "ADD PEER shop, FINGERPRINT ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        run: certificate::add_peer,
    },
    Form {
        verb: "ADD",
        object: Some("DISTPATH"),
        argument: required("path", Shape::Group),
        clauses: &ADD_PATH,
        force: None,
        summary: "Add a distribution path: it sends a trail of this home to the receiver of another one.",
        details: "A path is a Pump whose parameter file the console writes: HELP ADD RMTTRAIL tells of both. Needs a certificate (ADD CERTIFICATE), \
                  and trust at both ends (ADD PEER). Several paths may read one trail.",
        example: "ADD DISTPATH p1 SOURCE trail://localhost/services/v2/sources?trail=aa TARGET wss://shop2:7820/services/v2/targets?trail=bb",
        run: path::add,
    },
    Form {
        verb: "ALTER",
        object: Some("DISTPATH"),
        argument: required("path", Shape::Group),
        clauses: &ALTER_PATH,
        force: None,
        summary: "Change a distribution path.",
        details: "It must not be running. What is not named stays as it is. With another TARGET it goes on where it is in the source trail; BEGIN \
                  sends from another place on.",
        example: "ALTER DISTPATH p1 COMPRESSION ON BANDWIDTH 2M",
        run: path::alter,
    },
    Form {
        verb: "START",
        object: Some("DISTPATH"),
        argument: required("path", Shape::Group),
        clauses: &[],
        force: None,
        summary: "Start a distribution path as a process of its own.",
        details: "As START EXTRACT.",
        example: "START DISTPATH p1",
        run: path::start,
    },
    Form {
        verb: "STOP",
        object: Some("DISTPATH"),
        argument: required("path", Shape::Group),
        clauses: &[],
        force: None,
        summary: "Stop a distribution path, and wait for its end.",
        details: "As STOP EXTRACT.",
        example: "STOP DISTPATH p1",
        run: path::stop,
    },
    Form {
        verb: "STATS",
        object: Some("DISTPATH"),
        argument: required("path", Shape::Group),
        clauses: STATS,
        force: None,
        summary: "Show what a running distribution path has sent.",
        details: "As STATS EXTRACT.",
        example: "STATS DISTPATH p1",
        run: path::stats,
    },
    Form {
        verb: "INFO",
        object: Some("DISTPATH"),
        argument: required("path", Shape::Text),
        clauses: &[word("DETAIL", "with process, times, lag and checkpoints")],
        force: None,
        summary: "Show a distribution path; ALL stands for all of them.",
        details: "Current output is how far the target trail is durable, as its receiver has answered.",
        example: "INFO DISTPATH ALL DETAIL",
        run: path::info,
    },
    Form {
        verb: "DELETE",
        object: Some("DISTPATH"),
        argument: required("path", Shape::Group),
        clauses: &[],
        force: None,
        summary: "Delete a distribution path with its parameter file. The target trail stays.",
        details: "It must not be running.",
        example: "DELETE DISTPATH p1",
        run: path::delete,
    },
    Form {
        verb: "ADD",
        object: Some("CHECKPOINTTABLE"),
        argument: CHECKPOINT_TABLE,
        clauses: &[],
        force: None,
        summary: "Create a checkpoint table in the target database.",
        details: "Needs DBLOGIN to the target. Creates the table and, beside it, <name>_lox (transactions that do not fit into \
                  LOG_CMPLT_XIDS) and <name>_grp (which rows belong together). One checkpoint table serves any number of \
                  Replicats, of this home and of others. The scripts chkpt_<db>_create.sql in the home do the same \
                  without Drover.",
        example: "ADD CHECKPOINTTABLE main.checkpoints",
        run: checkpoint_table::add,
    },
    Form {
        verb: "ADD",
        object: Some("REPLICAT"),
        argument: GROUP,
        clauses: &[
            Clause {
                keyword: "EXTTRAIL",
                value: TRAIL,
                required: false,
                help: "the trail to apply, from its beginning",
            },
            Clause {
                keyword: "EXTFILE",
                value: FILE,
                required: false,
                help: "in place of a trail, the single file to apply, from its beginning",
            },
            Clause {
                keyword: "CHECKPOINTTABLE",
                value: TABLE,
                required: false,
                help: "the table in the target that keeps the group's position; without it the one that GLOBALS names",
            },
            Clause {
                keyword: "NODBCHECKPOINT",
                value: None,
                required: false,
                help: "refused: there is no Replicat without a checkpoint table",
            },
            Clause {
                keyword: "PARALLEL",
                value: None,
                required: false,
                help: "several appliers, whichever finds work; the parameter file can't ask for one session",
            },
            Clause {
                keyword: "COORDINATED",
                value: None,
                required: false,
                help: "threads, each with what THREAD and THREADRANGE of the MAPs assign to it",
            },
            Clause {
                keyword: "MAXTHREADS",
                value: required("n", Shape::Number { least: 1, greatest: parameter::THREADS_MAX }),
                required: false,
                help: "with COORDINATED, how many threads there are: 1 to 500, 25 by default",
            },
        ],
        force: None,
        summary: "Add a Replicat: its row in the checkpoint table and its checkpoint file.",
        details: "Needs DBLOGIN to the target. Either EXTTRAIL or EXTFILE is given. Without PARALLEL and COORDINATED the \
                  parameter file says how many sessions apply. A coordinated group has a name of at most 5 characters, and \
                  each of its threads a row of its own. An ADD that was interrupted is repeated by giving it again, and \
                  undone by DELETE REPLICAT.",
        example: "ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints",
        run: add::replicat,
    },
    Form {
        verb: "ADD",
        object: Some("TRANDATA"),
        argument: TABLES,
        clauses: &[Clause {
            keyword: "ALLCOLS",
            value: None,
            required: false,
            help: "tell all columns of old rows, as conflict detection by old values needs them",
        }],
        force: None,
        summary: "Let the source's log tell which row an update or delete means.",
        details: "Needs DBLOGIN to the source as the tables' owner. In PostgreSQL it sets the replica identity: the primary key, else the smallest \
                  unique index without NULLs, else, or with ALLCOLS, the whole row. Partitions are set with their table.",
        example: "ADD TRANDATA sales.*, ALLCOLS",
        run: trandata::add,
    },
    Form {
        verb: "ADD",
        object: Some("SCHEMATRANDATA"),
        argument: SCHEMA,
        clauses: &[Clause {
            keyword: "ALLCOLS",
            value: None,
            required: false,
            help: "tell all columns of old rows, as conflict detection by old values needs them",
        }],
        force: None,
        summary: "ADD TRANDATA for all tables of a schema.",
        details: "As ADD TRANDATA. Tables that are made later need the command again.",
        example: "ADD SCHEMATRANDATA sales",
        run: trandata::add_schema,
    },
    Form {
        verb: "INFO",
        object: Some("ALL"),
        argument: None,
        clauses: &[],
        force: None,
        summary: "List all groups with status and lag.",
        details: "Status comes from the lock that a running group holds, so it is true after a crash, too: RUNNING, STOPPED \
                  (stopped on request or never started) or ABENDED (ended in any other way).",
        example: "INFO ALL",
        run: info::all,
    },
    Form {
        verb: "INFO",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: &[SHOWCH],
        force: None,
        summary: "Show an Extract's status, read checkpoint and trails.",
        details: "Checkpoint Lag is the time from the last captured commit to the checkpoint that covers it.",
        example: "INFO EXTRACT e1",
        run: info::extract,
    },
    Form {
        verb: "INFO",
        object: Some("REPLICAT"),
        argument: GROUP,
        clauses: &[SHOWCH],
        force: None,
        summary: "Show a Replicat's status and its place in the trail.",
        details: "Checkpoint Lag is the time from the source commit of the last applied transaction to the checkpoint that \
                  covers it.",
        example: "INFO REPLICAT r1",
        run: info::replicat,
    },
    Form {
        verb: "START",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: &[
            Clause { keyword: "BR", value: None, required: false, help: "something about Bounded Recovery:" },
            Clause {
                keyword: "BRRESET",
                value: None,
                required: false,
                help: "read the log from where the oldest open transaction starts, and use nothing that was persisted",
            },
        ],
        force: None,
        summary: "Start an Extract as a process of its own, which outlives the console.",
        details: "What it prints goes to dirout/<GROUP>.out, what it reports to its report and the event log. drover extract group \
                  runs it in the foreground.",
        example: "START EXTRACT e1",
        run: start::extract,
    },
    Form {
        verb: "START",
        object: Some("REPLICAT"),
        argument: GROUP,
        clauses: &[
            Clause {
                keyword: "ATCSN",
                value: required("csn", Shape::Text),
                required: false,
                help: "begin with the first transaction that has this CSN or a later one",
            },
            Clause {
                keyword: "AFTERCSN",
                value: required("csn", Shape::Text),
                required: false,
                help: "begin with the first transaction that has a later CSN",
            },
            Clause {
                keyword: "SKIPTRANSACTION",
                value: None,
                required: false,
                help: "leave out exactly the next transaction",
            },
            Clause {
                keyword: "FILTERDUPTRANSACTIONS",
                value: None,
                required: false,
                help: "leave out what the checkpoint table shows as applied (the default)",
            },
            Clause {
                keyword: "NOFILTERDUPTRANSACTIONS",
                value: None,
                required: false,
                help: "apply it again, when the trail holds it again",
            },
        ],
        force: None,
        summary: "Start a Replicat as a process of its own, which outlives the console.",
        details: "The options hold for this run. What it prints goes to dirout/<GROUP>.out, what it reports to its report and the \
                  event log. drover replicat group runs it in the foreground.",
        example: "START REPLICAT r1, SKIPTRANSACTION",
        run: start::replicat,
    },
    Form {
        verb: "SYNCHRONIZE",
        object: Some("REPLICAT"),
        argument: GROUP,
        clauses: &[],
        force: None,
        summary: "Bring all appliers or threads of a Replicat to one place after an unclean stop.",
        details: "After a crash or kill -9, transactions may be applied before earlier ones. A start goes on with them, but the MAP \
                  statements must be the old ones. This applies what is missing, up to the last transaction that is applied, \
                  and ends; then the MAP statements may be changed. The group must not be running, and the parameter file must \
                  still have the old MAP statements.",
        example: "SYNCHRONIZE REPLICAT r1",
        run: synchronize::replicat,
    },
    Form {
        verb: "INFO",
        object: Some("CHECKPOINTTABLE"),
        argument: CHECKPOINT_TABLE,
        clauses: &[],
        force: None,
        summary: "Say whether a checkpoint table exists, when it was created, and which groups have rows in it.",
        details: "Needs DBLOGIN to the target. Tells what was changed about its columns or keys, and what an earlier version \
                  left out.",
        example: "INFO CHECKPOINTTABLE main.checkpoints",
        run: checkpoint_table::info,
    },
    Form {
        verb: "CLEANUP",
        object: Some("CHECKPOINTTABLE"),
        argument: CHECKPOINT_TABLE,
        clauses: &[],
        force: None,
        summary: "Remove the rows of Replicats that this home no longer has.",
        details: "Needs DBLOGIN to the target. A row goes when this home wrote it and has no checkpoint file with its key. Rows \
                  of other homes stay.",
        example: "CLEANUP CHECKPOINTTABLE main.checkpoints",
        run: checkpoint_table::cleanup,
    },
    Form {
        verb: "UPGRADE",
        object: Some("CHECKPOINTTABLE"),
        argument: CHECKPOINT_TABLE,
        clauses: &[],
        force: None,
        summary: "Add what a checkpoint table of an earlier version lacks.",
        details: "Needs DBLOGIN to the target. Rows stay as they are, and groups may run meanwhile.",
        example: "UPGRADE CHECKPOINTTABLE main.checkpoints",
        run: checkpoint_table::upgrade,
    },
    Form {
        verb: "INFO",
        object: Some("TRANDATA"),
        argument: TABLES,
        clauses: &[],
        force: None,
        summary: "Show what the source's log tells of old rows.",
        details: "Needs DBLOGIN to the source.",
        example: "INFO TRANDATA sales.orders",
        run: trandata::info,
    },
    Form {
        verb: "INFO",
        object: Some("SCHEMATRANDATA"),
        argument: SCHEMA,
        clauses: &[],
        force: None,
        summary: "INFO TRANDATA for all tables of a schema.",
        details: "Needs DBLOGIN to the source.",
        example: "INFO SCHEMATRANDATA sales",
        run: trandata::info_schema,
    },
    Form {
        verb: "STOP",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: &[],
        force: Some("end at once"),
        summary: "Stop an Extract, and wait until its process has ended.",
        details: "What was read of a transaction that is not whole is read again at the next start. A group that does not run \
                  is left alone.",
        example: "STOP EXTRACT e1",
        run: stop::extract,
    },
    Form {
        verb: "STOP",
        object: Some("REPLICAT"),
        argument: GROUP,
        clauses: &[],
        force: Some("roll back what is not committed at the target, and end at once"),
        summary: "Stop a Replicat, and wait until its process has ended.",
        details: "A group that does not run is left alone.",
        example: "STOP REPLICAT r1",
        run: stop::replicat,
    },
    Form {
        verb: "STATUS",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: &[],
        force: None,
        summary: "Say whether an Extract runs.",
        details: "RUNNING, STOPPED or ABENDED, as in INFO ALL.",
        example: "STATUS EXTRACT e1",
        run: stop::status_extract,
    },
    Form {
        verb: "STATUS",
        object: Some("REPLICAT"),
        argument: GROUP,
        clauses: &[],
        force: None,
        summary: "Say whether a Replicat runs.",
        details: "RUNNING, STOPPED or ABENDED, as in INFO ALL.",
        example: "STATUS REPLICAT r1",
        run: stop::status_replicat,
    },
    Form {
        verb: "LAG",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: LAG,
        force: None,
        summary: "Ask a running Extract how far it is behind its source.",
        details: "The time since the commit of the last transaction that it wrote, nothing once it has read everything. INFO \
                  shows the lag at the last checkpoint, also of a group that does not run. After a DBLOGIN to a database with \
                  heartbeat tables the lags of its heartbeats follow: EXTRACT is the time from the stamp to the Extract, ROUTING \
                  from there to the last Pump or path, READ from there to the Replicat, APPLY from there until the target \
                  has it; LAG is all of them, AGE the time since the stamp. A negative lag shows that clocks disagree. With \
                  GLOBAL, HISTORY or PLOT only heartbeats are looked at, and the group need not run.",
        example: "LAG EXTRACT e1",
        run: lag::extract,
    },
    Form {
        verb: "LAG",
        object: Some("REPLICAT"),
        argument: GROUP,
        clauses: LAG,
        force: None,
        summary: "Ask a running Replicat how far it is behind the source.",
        details: "The time since the source's commit of the last transaction that it applied, nothing once it has applied the \
                  whole trail. Heartbeats as in LAG EXTRACT.",
        example: "LAG REPLICAT r1, HISTORY",
        run: lag::replicat,
    },
    Form {
        verb: "STATS",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: STATS,
        force: None,
        summary: "Show how many operations a running Extract has written, by table.",
        details: "Without TOTAL, DAILY, HOURLY or LATEST all four are shown.",
        example: "STATS EXTRACT e1, TOTAL, TABLE sales.*",
        run: send::stats_extract,
    },
    Form {
        verb: "STATS",
        object: Some("REPLICAT"),
        argument: GROUP,
        clauses: STATS,
        force: None,
        summary: "Show how many operations a running Replicat has applied, by source table.",
        details: "Without TOTAL, DAILY, HOURLY or LATEST all four are shown.",
        example: "STATS REPLICAT r1, LATEST",
        run: send::stats_replicat,
    },
    Form {
        verb: "SEND",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: SEND_EXTRACT,
        force: Some("skip the transaction without asking"),
        summary: "Ask a running Extract something, or tell it to do something.",
        details: "One thing at a time. SHOWTRANS takes COUNT, DURATION, THRESHOLD, TABULAR, DETAIL and FILE; BR takes one of \
                  BRSTATUS, BRCHECKPOINT IMMEDIATE, BRSTART, BRSTOP and BRINTERVAL. SKIPTRANS wants the oldest transaction of \
                  SHOWTRANS; that it is skipped outlives the process.",
        example: "SEND EXTRACT e1, SHOWTRANS, COUNT 5, DETAIL",
        run: send::extract,
    },
    Form {
        verb: "SEND",
        object: Some("REPLICAT"),
        argument: GROUP,
        clauses: &[STATUS, SEND_STOP, FORCESTOP, REPORT, LOGEND, GETLAG],
        force: None,
        summary: "Ask a running Replicat something, or tell it to do something.",
        details: "One thing at a time.",
        example: "SEND REPLICAT r1, STATUS",
        run: send::replicat,
    },
    Form {
        verb: "DELETE",
        object: Some("EXTRACT"),
        argument: GROUP,
        clauses: &[],
        force: Some("delete the checkpoint file even when the source database can't be reached or is not logged in to"),
        summary: "Delete an Extract: unregister capture, remove the checkpoint file.",
        details: "Needs DBLOGIN to the source, but not for a Pump. The group must not be running. Trail files and reports stay.",
        example: "DELETE EXTRACT e1",
        run: delete::extract,
    },
    Form {
        verb: "DELETE",
        object: Some("REPLICAT"),
        argument: GROUP,
        clauses: &[Clause {
            keyword: "CHECKPOINTTABLE",
            value: TABLE,
            required: false,
            help: "where the row is, when the checkpoint file that knows it is lost",
        }],
        force: Some("delete the checkpoint file even when the target database can't be reached or is not logged in to"),
        summary: "Delete a Replicat: its row in the checkpoint table and its checkpoint file.",
        details: "Needs DBLOGIN to the target. The group must not be running.",
        example: "DELETE REPLICAT r1",
        run: delete::replicat,
    },
    Form {
        verb: "DELETE",
        object: Some("CHECKPOINTTABLE"),
        argument: CHECKPOINT_TABLE,
        clauses: &[],
        force: Some("do not ask"),
        summary: "Drop a checkpoint table and the tables beside it.",
        details: "Needs DBLOGIN to the target. Refused while a Replicat of this home or of another one has a row in it. Asks \
                  first, unless ! is given.",
        example: "DELETE CHECKPOINTTABLE main.checkpoints !",
        run: checkpoint_table::delete,
    },
    Form {
        verb: "DELETE",
        object: Some("EXTTRAIL"),
        argument: TRAIL,
        clauses: &[],
        force: None,
        summary: "Take a trail away from its Extract. The trail's files stay.",
        details: "The Extract must not be running.",
        example: "DELETE EXTTRAIL ./dirdat/aa",
        run: delete::trail,
    },
    Form {
        verb: "DELETE",
        object: Some("EXTFILE"),
        argument: FILE,
        clauses: &[],
        force: None,
        summary: "Take a single file away from its Extract. The file stays.",
        details: "The Extract must not be running.",
        example: "DELETE EXTFILE ./dirdat/orders.ext",
        run: delete::trail,
    },
    Form {
        verb: "DELETE",
        object: Some("RMTTRAIL"),
        argument: TRAIL,
        clauses: &[OF_PUMP],
        force: None,
        summary: "Take a trail of another home away from its Pump. The trail's files stay.",
        details: "The Pump must not be running.",
        example: "DELETE RMTTRAIL ./dirdat/bb",
        run: delete::remote_trail,
    },
    Form {
        verb: "DELETE",
        object: Some("RMTFILE"),
        argument: FILE,
        clauses: &[OF_PUMP],
        force: None,
        summary: "Take a single file of another home away from its Pump. The file stays.",
        details: "The Pump must not be running.",
        example: "DELETE RMTFILE ./dirdat/orders.ext",
        run: delete::remote_trail,
    },
    Form {
        verb: "DELETE",
        object: Some("PEER"),
        argument: required("name", Shape::Text),
        clauses: &[],
        force: None,
        summary: "Believe a certificate no more.",
        details: "Takes away all fingerprints of that name. Connections that are open stay so until they end.",
        example: "DELETE PEER shop",
        run: certificate::delete_peer,
    },
    Form {
        verb: "ALTER",
        object: Some("RMTTRAIL"),
        argument: TRAIL,
        clauses: &[Clause { required: true, ..REMOTE_MEGABYTES }, OF_PUMP],
        force: None,
        summary: "Change the size of the files of a trail in another home.",
        details: "The Pump must not be running. Holds from its next connection on.",
        example: "ALTER RMTTRAIL ./dirdat/bb, MEGABYTES 50",
        run: remote::alter,
    },
    Form {
        verb: "INFO",
        object: Some("RMTTRAIL"),
        argument: required("trail", Shape::Text),
        clauses: &[],
        force: None,
        summary: "Show trails of other homes with their Pumps: how far each is durable there.",
        details: "* stands for all of them.",
        example: "INFO RMTTRAIL *",
        run: remote::info,
    },
    Form {
        verb: "INFO",
        object: Some("CERTIFICATE"),
        argument: CERTIFICATE,
        clauses: &[],
        force: None,
        summary: "Show the fingerprint of a certificate of this home.",
        details: "Without a name, of the one called drover. The key is never shown.",
        example: "INFO CERTIFICATE",
        run: certificate::info,
    },
    Form {
        verb: "INFO",
        object: Some("PEER"),
        argument: required("name", Shape::Text),
        clauses: &[],
        force: None,
        summary: "Show whose certificates this home believes.",
        details: "* stands for all of them.",
        example: "INFO PEER *",
        run: certificate::info_peer,
    },
    Form {
        verb: "DELETE",
        object: Some("TRANDATA"),
        argument: TABLES,
        clauses: &[],
        force: None,
        summary: "Take ADD TRANDATA back: the primary key alone tells the row.",
        details: "Needs DBLOGIN to the source as the tables' owner. Refused for a table without a primary key while a publication tells its updates: \
                  the server would refuse them to its users.",
        example: "DELETE TRANDATA sales.orders",
        run: trandata::delete,
    },
    Form {
        verb: "DELETE",
        object: Some("SCHEMATRANDATA"),
        argument: SCHEMA,
        clauses: &[],
        force: None,
        summary: "DELETE TRANDATA for all tables of a schema.",
        details: "As DELETE TRANDATA.",
        example: "DELETE SCHEMATRANDATA sales",
        run: trandata::delete_schema,
    },
    Form {
        verb: "PURGE",
        object: Some("EXTTRAIL"),
        argument: TRAIL,
        clauses: &[],
        force: Some("remove the files although a group of this home uses the trail"),
        summary: "Remove all files of a trail.",
        details: "Refused while an Extract or Replicat of this home uses the trail, unless ! is given; such groups must then be \
                  deleted and added again, and tables compared. Refused in any case while the trail is written. To remove only \
                  files that nobody needs any more, use PURGEOLDEXTRACTS in a parameter file.",
        example: "PURGE EXTTRAIL ./dirdat/aa",
        run: purge::trail,
    },
    Form {
        verb: "PURGE",
        object: Some("EXTFILE"),
        argument: FILE,
        clauses: &[],
        force: Some("remove the file although a group of this home uses it"),
        summary: "Remove a single file.",
        details: "As PURGE EXTTRAIL.",
        example: "PURGE EXTFILE ./dirdat/orders.ext",
        run: purge::trail,
    },
    Form {
        verb: "CREATE",
        object: Some("WALLET"),
        argument: None,
        clauses: &[],
        force: None,
        summary: "Make the wallet of this home, which keeps the master key of encrypted trails.",
        details: "The file is dirwlt/drover.wallet, readable by its owner only. Keep a copy in a safe place: without it nobody reads \
                  encrypted trail files. Homes that share a trail need the same wallet: copy the file.",
        example: "CREATE WALLET",
        run: wallet::create,
    },
    Form {
        verb: "OPEN",
        object: Some("WALLET"),
        argument: None,
        clauses: &[],
        force: None,
        summary: "Check that the wallet of this home can be used.",
        details: "Groups and commands open it by themselves; the command tells what would keep them from it.",
        example: "OPEN WALLET",
        run: wallet::open,
    },
    Form {
        verb: "ADD",
        object: Some("MASTERKEY"),
        argument: None,
        clauses: &[],
        force: None,
        summary: "Make the first version of the master key.",
        details: "Needs CREATE WALLET before.",
        example: "ADD MASTERKEY",
        run: wallet::add,
    },
    Form {
        verb: "RENEW",
        object: Some("MASTERKEY"),
        argument: None,
        clauses: &[],
        force: None,
        summary: "Make a new version of the master key, which trail files use from then on.",
        details: "Running groups use it from their next trail file on. Earlier versions stay for the files that were written with \
                  them.",
        example: "RENEW MASTERKEY",
        run: wallet::renew,
    },
    Form {
        verb: "INFO",
        object: Some("MASTERKEY"),
        argument: None,
        clauses: &[VERSION],
        force: None,
        summary: "Show the versions of the master key, or one of them.",
        details: "The hash tells whether two wallets hold the same key. The key itself is never shown.",
        example: "INFO MASTERKEY, VERSION 1",
        run: wallet::info,
    },
    Form {
        verb: "DELETE",
        object: Some("MASTERKEY"),
        argument: None,
        clauses: &[
            VERSION,
            Clause { keyword: "RANGE", value: None, required: false, help: "several versions: RANGE FROM n TO m" },
            Clause {
                keyword: "FROM",
                value: required("n", KEY_VERSION),
                required: false,
                help: "first version of the range",
            },
            Clause {
                keyword: "TO",
                value: required("m", KEY_VERSION),
                required: false,
                help: "last version of the range",
            },
            Clause { keyword: "ALL", value: None, required: false, help: "all versions, the current one too" },
        ],
        force: None,
        summary: "Mark versions of the master key as deleted: files that need them can't be read any more.",
        details: "UNDELETE MASTERKEY takes it back until PURGE WALLET. The current version goes only with ALL.",
        example: "DELETE MASTERKEY, VERSION 1",
        run: wallet::delete,
    },
    Form {
        verb: "UNDELETE",
        object: Some("MASTERKEY"),
        argument: None,
        clauses: &[Clause { required: true, ..VERSION }],
        force: None,
        summary: "Take the deletion of a version of the master key back.",
        details: "The version can be used to read, not to write: a current version of the master key stays current.",
        example: "UNDELETE MASTERKEY, VERSION 1",
        run: wallet::undelete,
    },
    Form {
        verb: "PURGE",
        object: Some("WALLET"),
        argument: None,
        clauses: &[],
        force: Some("remove them"),
        summary: "Remove deleted versions of the master key for ever.",
        details: "Files that need them can never be read again, so the command wants !.",
        example: "PURGE WALLET !",
        run: wallet::purge,
    },
    Form {
        verb: "ADD",
        object: Some("ERRORQUEUE"),
        argument: None,
        clauses: &[],
        force: None,
        summary: "Create the error queue and the conflict log in the target database.",
        details: "Needs DBLOGIN to the target. One error queue serves all Replicats that apply to the database. REPERROR with TRANSQUEUE \
                  parks transactions in it; conflicts of RESOLVECONFLICT are logged where it exists. In PostgreSQL it lies in the \
                  schema drover, with views deferror, defcall, deferrcount and represolution_statistics; in SQLite the names start \
                  with drover_.",
        example: "ADD ERRORQUEUE",
        run: error_queue::add,
    },
    Form {
        verb: "INFO",
        object: Some("ERRORQUEUE"),
        argument: None,
        clauses: &[],
        force: None,
        summary: "Say how many transactions each Replicat has parked.",
        details: "Needs DBLOGIN to the target.",
        example: "INFO ERRORQUEUE",
        run: error_queue::info,
    },
    Form {
        verb: "INFO",
        object: Some("ERRORS"),
        argument: None,
        clauses: &[OF_REPLICAT],
        force: None,
        summary: "List the transactions in the error queue, in the order of their trails.",
        details: "Needs DBLOGIN to the target. The same stands in the view deferror.",
        example: "INFO ERRORS, REPLICAT r1",
        run: error_queue::info_errors,
    },
    Form {
        verb: "INFO",
        object: Some("ERROR"),
        argument: TRANSACTION,
        clauses: &[],
        force: None,
        summary: "Show a transaction of the error queue with its calls: old, new and current values.",
        details: "Needs DBLOGIN to the target. The current values are those that the row had when the transaction was parked. \
                  The same stands in the view defcall.",
        example: "INFO ERROR R1.0.1234",
        run: error_queue::info_error,
    },
    Form {
        verb: "ALTER",
        object: Some("ERROR"),
        argument: TRANSACTION,
        clauses: &[
            Clause {
                keyword: "CALL",
                value: required("n", Shape::Number { least: 0, greatest: u32::MAX }),
                required: true,
                help: "the call, see INFO ERROR",
            },
            Clause { keyword: "COLUMN", value: required("name", Shape::Text), required: true, help: "the column" },
            Clause {
                keyword: "VALUE",
                value: required("text", Shape::Text),
                required: false,
                help: "the value that it is to have, in quotes where it is more than a word",
            },
            Clause { keyword: "NULL", value: None, required: false, help: "it is to be NULL" },
            Clause {
                keyword: "UNTOLD",
                value: None,
                required: false,
                help: "take the value out, as if the source had not told it",
            },
            Clause { keyword: "OLD", value: None, required: false, help: "of the old row, not of the new one" },
        ],
        force: None,
        summary: "Change a value of a transaction in the error queue.",
        details: "Needs DBLOGIN to the target. The value is written as the source would tell it.",
        example: "ALTER ERROR R1.0.1234, CALL 0, COLUMN amount, VALUE 10.50",
        run: error_queue::alter,
    },
    Form {
        verb: "EXECUTE",
        object: Some("ERROR"),
        argument: TRANSACTION,
        clauses: &[Clause {
            keyword: "TRIAL",
            value: None,
            required: false,
            help: "execute it, show each row before and after, and take all of it back",
        }],
        force: Some("also when an older transaction in the queue touches the same rows"),
        summary: "Execute a transaction of the error queue; it leaves the queue in the same target transaction.",
        details: "Needs DBLOGIN to the target. The group may run meanwhile. What the MAP statements of the group say of collisions \
                  and conflicts holds here too, where this home has its parameter file. What is refused stays in the queue, and the \
                  target as it was.",
        example: "EXECUTE ERROR R1.0.1234, TRIAL",
        run: error_queue::execute,
    },
    Form {
        verb: "EXECUTE",
        object: Some("ERRORS"),
        argument: None,
        clauses: &[OF_REPLICAT],
        force: None,
        summary: "Execute the transactions of the error queue in the order of their trails.",
        details: "Needs DBLOGIN to the target. Each commits by itself. One that is refused stays in the queue, and so do those that \
                  touch what it touches; the others go on.",
        example: "EXECUTE ERRORS, REPLICAT r1",
        run: error_queue::execute_all,
    },
    Form {
        verb: "DELETE",
        object: Some("ERROR"),
        argument: TRANSACTION,
        clauses: &[],
        force: None,
        summary: "Delete a transaction from the error queue for good.",
        details: "Needs DBLOGIN to the target. Its rows are not applied: compare the tables.",
        example: "DELETE ERROR R1.0.1234",
        run: error_queue::delete_error,
    },
    Form {
        verb: "DELETE",
        object: Some("ERRORS"),
        argument: None,
        clauses: &[OF_REPLICAT],
        force: Some("do not ask"),
        summary: "Delete all transactions from the error queue for good.",
        details: "Needs DBLOGIN to the target. Asks first, unless ! is given. Their rows are not applied: compare the tables.",
        example: "DELETE ERRORS, REPLICAT r1 !",
        run: error_queue::delete_errors,
    },
    Form {
        verb: "DELETE",
        object: Some("ERRORQUEUE"),
        argument: None,
        clauses: &[],
        force: Some("do not ask, and drop what it holds"),
        summary: "Drop the error queue and the conflict log.",
        details: "Needs DBLOGIN to the target. Refused while a transaction is in the queue, unless ! is given.",
        example: "DELETE ERRORQUEUE !",
        run: error_queue::delete,
    },
    Form {
        verb: "ADD",
        object: Some("HEARTBEATTABLE"),
        argument: None,
        clauses: &[FREQUENCY, RETENTION_TIME, PURGE_FREQUENCY, TARGETONLY, NOTARGETONLY, PARTITIONED, NOPARTITIONED],
        force: None,
        summary: "Create the heartbeat tables, which show how late data arrives.",
        details: "Needs DBLOGIN. Creates GG_HEARTBEAT_SEED, GG_HEARTBEAT, GG_HEARTBEAT_HISTORY and GG_HEARTBEAT_JOB, the views GG_LAG and \
                  GG_LAG_HISTORY, and in PostgreSQL the functions GG_UPDATE_HB_TAB, GG_PURGE_HB_TAB and GG_HB_JOB_RUN. Add them \
                  to all sources and targets, then restart the groups. A running Extract runs the jobs of its source, a \
                  running Replicat the purge of its target.",
        example: "ADD HEARTBEATTABLE, FREQUENCY 60",
        run: heartbeat::add,
    },
    Form {
        verb: "ALTER",
        object: Some("HEARTBEATTABLE"),
        argument: None,
        clauses: &[
            FREQUENCY,
            RETENTION_TIME,
            PURGE_FREQUENCY,
            TARGETONLY,
            NOTARGETONLY,
            PARTITIONED,
            NOPARTITIONED,
            Clause {
                keyword: "UPGRADE",
                value: None,
                required: false,
                help: "add what an installation of an earlier version lacks; by itself only",
            },
        ],
        force: None,
        summary: "Change how often heartbeats are stamped and purged, pause and resume them.",
        details: "Needs DBLOGIN. What is not given stays as it is. FREQUENCY 0 pauses, a greater one resumes at once; running \
                  groups follow without a restart. TARGETONLY removes the job that stamps, NOTARGETONLY makes it.",
        example: "ALTER HEARTBEATTABLE, FREQUENCY 0",
        run: heartbeat::alter,
    },
    Form {
        verb: "UPGRADE",
        object: Some("HEARTBEATTABLE"),
        argument: None,
        clauses: &[],
        force: None,
        summary: "Add what heartbeat tables of an earlier version lack.",
        details: "Needs DBLOGIN. Rows stay as they are. Restart the groups afterwards.",
        example: "UPGRADE HEARTBEATTABLE",
        run: heartbeat::upgrade,
    },
    Form {
        verb: "INFO",
        object: Some("HEARTBEATTABLE"),
        argument: None,
        clauses: &[],
        force: None,
        summary: "Show the heartbeat tables, what was chosen, and whether their jobs run.",
        details: "Needs DBLOGIN. A NEXT_RUN_DATE in the past means that nobody runs the job; JOB_QUEUE_PROCESSES 0 means that \
                  nobody may.",
        example: "INFO HEARTBEATTABLE",
        run: heartbeat::info,
    },
    Form {
        verb: "DELETE",
        object: Some("HEARTBEATTABLE"),
        argument: Some(Value { name: "name", shape: Shape::Table, required: false }),
        clauses: &[],
        force: Some("do not ask"),
        summary: "Remove heartbeat tables, views, functions and jobs.",
        details: "Needs DBLOGIN. Stop the Replicats that apply heartbeats there first. The history goes, too.",
        example: "DELETE HEARTBEATTABLE !",
        run: heartbeat::delete,
    },
    Form {
        verb: "DELETE",
        object: Some("HEARTBEATENTRY"),
        argument: GROUP,
        clauses: &[],
        force: None,
        summary: "Remove the rows of GG_HEARTBEAT that name a group on their way.",
        details: "Needs DBLOGIN. For groups that are gone: their rows would get older and older. A row comes back with the \
                  next heartbeat that takes the way. History stays.",
        example: "DELETE HEARTBEATENTRY e1",
        run: heartbeat::delete_entry,
    },
    Form {
        verb: "HELP",
        object: None,
        argument: Some(Value { name: "command", shape: Shape::Words, required: false }),
        clauses: &[],
        force: None,
        summary: "List the commands, or explain one.",
        details: "",
        example: "HELP ADD EXTRACT",
        run: help::help,
    },
];

impl Form {
    /// The words that a command of this form starts with.
    pub fn name(&self) -> String {
        match self.object {
            Some(object) => format!("{} {object}", self.verb),
            None => self.verb.to_owned(),
        }
    }

    /// The command's grammar in one line; what may be left out stands in brackets.
    pub fn usage(&self) -> String {
        let mut usage = self.name();
        if let Some(argument) = &self.argument {
            let text = argument.usage();
            usage += &if argument.required { format!(" {text}") } else { format!(" [{text}]") };
        }
        for (index, clause) in self.clauses.iter().enumerate() {
            let comma = if index == 0 && self.argument.is_none() { " " } else { ", " };
            let value = clause.value.as_ref().map_or_else(String::new, |value| match value.required {
                true => format!(" {}", value.usage()),
                false => format!(" [{}]", value.usage()),
            });
            let text = format!("{}{value}", clause.keyword);
            usage += &if clause.required { format!("{comma}{text}") } else { format!(" [{comma}{text}]") };
        }
        if self.force.is_some() {
            usage += " [!]";
        }
        usage
    }
}

impl Value {
    fn usage(&self) -> String {
        match self.shape {
            Shape::Choice(words) => words.join("|"),
            _ => self.name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::parse;

    #[test]
    fn every_example_is_a_command_of_its_own_form() {
        for form in COMMANDS {
            let commands = parse::parse(form.example).unwrap_or_else(|error| panic!("{}: {error}", form.example));
            assert_eq!(commands.len(), 1);
            assert!(std::ptr::eq(commands[0].form, form), "{}", form.example);
        }
    }

    #[test]
    fn usage_shows_what_may_be_left_out() {
        let usage = |verb: &str, object: Option<&str>| {
            COMMANDS.iter().find(|form| form.verb == verb && form.object == object).expect("a command").usage()
        };
        assert_eq!(usage("ADD", Some("EXTTRAIL")), "ADD EXTTRAIL trail, EXTRACT group [, MEGABYTES n]");
        assert_eq!(usage("ADD", Some("EXTRACT")), "ADD EXTRACT group, TRANLOG, BEGIN NOW");
        assert_eq!(usage("DELETE", Some("EXTRACT")), "DELETE EXTRACT group [!]");
        assert_eq!(usage("DBLOGIN", None), "DBLOGIN SOURCEDB url");
        assert_eq!(usage("HELP", None), "HELP [command]");
    }
}
