//! The table of all parameters. The parser, the suggestions and the reference page come from it.

use crate::cursor::{Cursor, Written};
use crate::definition;
use crate::diagnostic::Diagnostic;
use crate::file::Raw;
use crate::handling::{ConflictMethod, ConflictPart, ConflictType, ExceptionsRule, HandlingRule};
use crate::handling_grammar::{MAP_OPTIONS, MapOptions, map_option, read_discard_file, read_error_rule};
use crate::log_kept;
use crate::map::MapRule;
use crate::open::{read_bounded, read_cache, read_long};
use crate::partition;
use crate::pattern::NamePattern;
use crate::pump;
use crate::remote;
use crate::secret::DatabaseUrl;
use crate::suggestion::nearest;
use crate::table::{ColumnName, TableRule};
use crate::trail_format::{self, TrailFormat};
use crate::tran_log;
use std::ops::Range;

/// Which process reads a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Extract,
    Replicat,
    /// Both of them.
    Either,
    /// DEFGEN, which writes definitions files.
    Definitions,
    /// An Extract or DEFGEN.
    Source,
    /// An Extract whose source is a trail.
    Pump,
    /// An Extract, also one whose source is a trail.
    AnyExtract,
    /// An Extract, also one whose source is a trail, or DEFGEN.
    Tables,
}

impl Reader {
    /// The process's name, as a sentence about it has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reader::Extract => "an Extract",
            Reader::Replicat => "a Replicat",
            Reader::Either => "an Extract or a Replicat",
            Reader::Definitions => "DEFGEN",
            Reader::Source => "an Extract or DEFGEN",
            Reader::Pump => "a Pump",
            Reader::AnyExtract => "an Extract or a Pump",
            Reader::Tables => "an Extract, a Pump or DEFGEN",
        }
    }

    /// Whether `process` reads a parameter of this reader.
    pub(crate) fn includes(self, process: Reader) -> bool {
        match self {
            Reader::Either => matches!(process, Reader::Extract | Reader::Replicat | Reader::Pump),
            Reader::Source => matches!(process, Reader::Extract | Reader::Definitions),
            Reader::AnyExtract => matches!(process, Reader::Extract | Reader::Pump),
            Reader::Tables => matches!(process, Reader::Extract | Reader::Pump | Reader::Definitions),
            own => own == process,
        }
    }
}

/// How often a parameter may stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occurrence {
    /// Exactly once.
    Once,
    /// At most once.
    Optional,
    /// At least once.
    OneOrMore,
    /// Exactly one of these parameters, once.
    OneOf(&'static [&'static str]),
    /// Any number of times.
    Any,
}

/// Where a statement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With its line, unless `&` stands at the end of it.
    Line,
    /// With `;`, on any line.
    Semicolon,
    /// At the end of its line, or before that at `;`.
    LineOrSemicolon,
}

/// One parameter.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) reader: Reader,
    pub(crate) occurrence: Occurrence,
    pub(crate) ending: Ending,
    /// The parameter that it must stand behind, besides the one that names the group.
    /// Of several one is enough.
    pub(crate) follows: Option<&'static [&'static str]>,
    /// What is written after the name.
    pub(crate) grammar: &'static str,
    /// What holds when the parameter is absent.
    pub(crate) default: Option<&'static str>,
    /// One line.
    pub(crate) summary: &'static str,
    /// Paragraphs of Markdown.
    pub(crate) help: &'static str,
    /// A whole statement.
    pub(crate) example: &'static str,
    /// Reads what stands after the name into the raw parameters; the range is the name's place.
    pub(crate) read: fn(&mut Cursor<'_>, &mut Raw, Range<usize>) -> Result<(), Diagnostic>,
}

/// What an Extract writes: parameters of which a file has one. The first one is what messages suggest.
pub(crate) const OUTPUTS: &[&str] = &["EXTTRAIL", "EXTFILE"];

/// The same with those of a Pump.
const ANY_OUTPUTS: &[&str] = &["EXTTRAIL", "EXTFILE", "RMTTRAIL", "RMTFILE"];

/// The least number of SPLIT_TRANS_RECS.
const SPLIT_MIN: u32 = 100;

/// Sites that write when CONFLICTSITES is absent: this one, and the one that the trail comes from.
pub(crate) const CONFLICT_SITES_DEFAULT: u32 = 2;

/// Most sites that CONFLICTSITES takes: more than anybody has.
const CONFLICT_SITES_MAX: u32 = 1000;

/// Operations that a Replicat gathers into one target transaction when GROUPTRANSOPS is absent.
pub(crate) const GROUP_TRANSACTIONS_DEFAULT: u32 = 1000;

/// All parameters, in the order in which a file usually has them.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "EXTRACT",
        reader: Reader::AnyExtract,
        occurrence: Occurrence::Once,
        ending: Ending::Line,
        follows: None,
        grammar: "group",
        default: None,
        summary: "Names the Extract group. The first parameter of its file.",
        help: "The group must be the one that the file is named after.",
        example: "EXTRACT e1",
        read: read_group,
    },
    Parameter {
        name: "REPLICAT",
        reader: Reader::Replicat,
        occurrence: Occurrence::Once,
        ending: Ending::Line,
        follows: None,
        grammar: "group",
        default: None,
        summary: "Names the Replicat group. The first parameter of its file.",
        help: "The group must be the one that the file is named after.",
        example: "REPLICAT r1",
        read: read_group,
    },
    Parameter {
        name: "DEFSFILE",
        reader: Reader::Definitions,
        occurrence: Occurrence::Once,
        ending: Ending::Line,
        follows: None,
        grammar: "file [, PURGE]",
        default: None,
        summary: "The definitions file to write. The first parameter of DEFGEN's file.",
        help: "A relative path counts from the home. A file that is there is replaced only with `PURGE`.",
        example: "DEFSFILE ./dirdef/source.def, PURGE",
        read: read_definitions_file,
    },
    Parameter {
        name: "SOURCEDB",
        reader: Reader::Source,
        occurrence: Occurrence::Once,
        ending: Ending::Line,
        follows: None,
        grammar: "url",
        default: None,
        summary: "The database whose changes are captured.",
        help: "The part before the first colon names the product: `sqlite:PATH` or `postgres://USER@HOST:PORT/DATABASE`. A URL \
               that holds blanks stands in single quotes. Passwords in it are never shown, neither in reports nor in messages.",
        example: "SOURCEDB sqlite:/var/lib/shop/shop.db",
        read: read_source,
    },
    Parameter {
        name: "TARGETDB",
        reader: Reader::Replicat,
        occurrence: Occurrence::Once,
        ending: Ending::Line,
        follows: None,
        grammar: "url",
        default: None,
        summary: "The database that changes are applied to.",
        help: "Written like the URL of SOURCEDB.",
        example: "TARGETDB sqlite:/var/lib/shop/copy.db",
        read: read_target,
    },
    Parameter {
        name: "ENCRYPTTRAIL",
        reader: Reader::Extract,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "[AES128 | AES192 | AES256]",
        default: None,
        summary: "Encrypts the data of the trail that is written.",
        help: crate::cover::ENCRYPT_HELP,
        example: "ENCRYPTTRAIL AES256",
        read: crate::cover::read_encrypt,
    },
    Parameter {
        name: "NOENCRYPTTRAIL",
        reader: Reader::Extract,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "",
        default: None,
        summary: "The trail is not encrypted, which is the default.",
        help: "Says so for those who read the file.",
        example: "NOENCRYPTTRAIL",
        read: crate::cover::read_no_encrypt,
    },
    Parameter {
        name: "COMPRESSTRAIL",
        reader: Reader::Extract,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "",
        default: None,
        summary: "Compresses the data of the trail that is written.",
        help: crate::cover::COMPRESS_HELP,
        example: "COMPRESSTRAIL",
        read: crate::cover::read_compress,
    },
    Parameter {
        name: "EXTTRAIL",
        reader: Reader::AnyExtract,
        occurrence: Occurrence::OneOf(ANY_OUTPUTS),
        ending: Ending::Line,
        follows: None,
        grammar: "trail [, FORMAT RELEASE major.minor] [, OBJECTDEFS | NO_OBJECTDEFS]",
        default: None,
        summary: "The trail that is written.",
        help: "A path with the two characters of the trail's name at its end, relative to the home. It must be the trail \
               that `ADD EXTTRAIL` gave to the group, written in the same way. The TABLE statements follow it.\n\n\
               - `FORMAT RELEASE`: files are written as that release reads them, 10.0 to 21.x. Without it a trail keeps the \
               format of its last file, and a new one has that of release 19.1. Up to 12.1 files are big-endian, name their \
               tables in each record, and hold no table definitions: whoever reads them must be given those with SOURCEDEFS.\n\
               - `OBJECTDEFS`: files hold the definitions of their tables; the default from 12.2 on.\n\
               - `NO_OBJECTDEFS`: they do not.",
        example: "EXTTRAIL ./dirdat/aa",
        read: read_trail,
    },
    Parameter {
        name: "EXTFILE",
        reader: Reader::Extract,
        occurrence: Occurrence::OneOf(OUTPUTS),
        ending: Ending::Line,
        follows: None,
        grammar: "file [, FORMAT RELEASE major.minor] [, OBJECTDEFS | NO_OBJECTDEFS]",
        default: None,
        summary: "The single file that is written, in place of a trail.",
        help: "A path relative to the home; the file that `ADD EXTFILE` gave to the group, written in the same way. The name has \
               one or more than two characters: two are the name of a trail. The file has no number, grows without limit and is \
               never followed by another one; after a restart the Extract goes on at its end. The options are those of EXTTRAIL. \
               PURGEOLDEXTRACTS, TRAIL_SEQLEN_6D and ENCRYPTTRAIL make no sense with it and are refused: an encrypted file is \
               never appended to again.",
        example: "EXTFILE ./dirdat/orders.ext",
        read: read_file,
    },
    Parameter {
        name: "PASSTHRU",
        reader: Reader::Pump,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "",
        default: None,
        summary: "Records are sent as they are.",
        help: "A Pump never changes a row, so this says only that all tables go along where no TABLE statement selects some.",
        example: "PASSTHRU",
        read: pump::read_pass_through,
    },
    Parameter {
        name: "RMTHOST",
        reader: Reader::Pump,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "host[:port] [, PORT n] [, CERTIFICATE name] [, COMPRESS [, COMPRESSTHRESHOLD bytes]] [, BANDWIDTH size] \
                  [, TIMEOUT seconds]",
        default: None,
        summary: "The host whose receiver takes the records.",
        help: remote::HOST_HELP,
        example: "RMTHOST shop2.example, PORT 7820, COMPRESS",
        read: remote::read_host,
    },
    Parameter {
        name: "RMTTRAIL",
        reader: Reader::Pump,
        occurrence: Occurrence::OneOf(ANY_OUTPUTS),
        ending: Ending::Line,
        follows: Some(&["RMTHOST"]),
        grammar: "trail",
        default: None,
        summary: "The trail that is written in the home of RMTHOST.",
        help: "It must be the trail that `ADD RMTTRAIL` gave to the group, written in the same way. It lies in the `dirdat` of the \
               other home.",
        example: "RMTTRAIL ./dirdat/bb",
        read: remote::read_trail,
    },
    Parameter {
        name: "RMTFILE",
        reader: Reader::Pump,
        occurrence: Occurrence::OneOf(ANY_OUTPUTS),
        ending: Ending::Line,
        follows: Some(&["RMTHOST"]),
        grammar: "file",
        default: None,
        summary: "The single file that is written in the home of RMTHOST, in place of a trail.",
        help: "The file that `ADD RMTFILE` gave to the group, written in the same way. It lies in the `dirdat` of the other home, has \
               no number and grows without limit. What the Pump reads must be a single file, too: records of several files may \
               number their tables differently.",
        example: "RMTFILE ./dirdat/orders.ext",
        read: remote::read_file,
    },
    Parameter {
        name: "TRAILBYTEORDER",
        reader: Reader::Extract,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "BIGENDIAN | LITTLEENDIAN | NATIVEENDIAN",
        default: Some("LITTLEENDIAN"),
        summary: "The byte order of lengths and header numbers in the trail.",
        help: "Values are not affected, and every reader finds the order out by itself. Releases up to 12.1 have `BIGENDIAN` as \
               default, and those before 12.1 know nothing else.",
        example: "TRAILBYTEORDER BIGENDIAN",
        read: trail_format::read_byte_order,
    },
    Parameter {
        name: "TRAIL_SEQLEN_6D",
        reader: Reader::Extract,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "",
        default: None,
        summary: "Files of a new trail have numbers of six digits.",
        help: "Without it they have nine. A trail that has files keeps the width of their numbers.",
        example: "TRAIL_SEQLEN_6D",
        read: trail_format::read_six_digits,
    },
    Parameter {
        name: "UPDATERECORDFORMAT",
        reader: Reader::Extract,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "COMPACT | FULL",
        default: None,
        summary: "What the one record of an update holds.",
        help: "Without it an update whose row before is known is one record with both images as the source told them; in formats \
               up to 12.1 it is two records, one for each image.\n\n\
               - `COMPACT`: one record; of the row after it holds the key and the columns that have changed.\n\
               - `FULL`: one record; of the row after it holds all columns whose values are known.",
        example: "UPDATERECORDFORMAT COMPACT",
        read: trail_format::read_update_format,
    },
    Parameter {
        name: "RECOVERYOPTIONS",
        reader: Reader::Extract,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "APPENDMODE | OVERWRITEMODE",
        default: Some("APPENDMODE"),
        summary: "What becomes of the end of the trail when the Extract starts again.",
        help: "- `APPENDMODE`: a transaction that was cut short stays, a marker behind it tells readers to drop it, and everything \
               that the trail holds is kept.\n\
               - `OVERWRITEMODE`: the trail is cut to the write checkpoint, and what came behind it is written again. For readers \
               that know no markers. Stop them first: one that was further stops with a message and finds its place when it is \
               started again.",
        example: "RECOVERYOPTIONS OVERWRITEMODE",
        read: trail_format::read_recovery,
    },
    Parameter {
        name: "PARTITION",
        reader: Reader::Extract,
        occurrence: Occurrence::Any,
        ending: Ending::Line,
        follows: None,
        grammar: "[schema.]table.partition",
        default: None,
        summary: "Partitions whose changes tell their name in the trail.",
        help: "Each part of the name may hold wildcards; the partition is named without its schema. Changes are still those of the \
               table that the partition belongs to, and arrive in it; beside them the trail has the partition's name and number. \
               Partitions that no statement matches are captured as before.\n\n\
               Only PostgreSQL has partitions. The tables of such statements are published by their partitions, which \
               `ADD EXTRACT` does: statements that come or go later for a table need `DELETE EXTRACT` and `ADD EXTRACT`. No \
               event trigger is installed then, so new tables and partitions are found by looking, and join while they are \
               empty. A `TRUNCATE` of some partitions alone can't be told and stops the Extract, and so does a partition that \
               is detached while it runs.",
        example: "PARTITION public.measurement.y2026*",
        read: partition::read_partition,
    },
    Parameter {
        name: "PARTITIONEXCLUDE",
        reader: Reader::Extract,
        occurrence: Occurrence::Any,
        ending: Ending::Line,
        follows: None,
        grammar: "[schema.]table.partition",
        default: None,
        summary: "Partitions whose changes are not captured.",
        help: "Written as in PARTITION, and stronger than a PARTITION statement that matches as well. A row that moves out of \
               such a partition is captured as an insert, one that moves into it as a delete.",
        example: "PARTITIONEXCLUDE public.measurement.y2025",
        read: partition::read_exclusion,
    },
    Parameter {
        name: "TRANLOGOPTIONS",
        reader: Reader::Extract,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "TWOPHASE | NOTWOPHASE",
        default: Some("NOTWOPHASE"),
        summary: "How the source's log is read.",
        help: "TWOPHASE lets a PostgreSQL source tell the changes of a prepared transaction when it is prepared, and not when it \
               ends. They are kept in `dirbr`, durably, before the source hears that they were read, and are not read again \
               at the end. The transaction still comes into the trail at its COMMIT PREPARED. Once a slot was \
               read with TWOPHASE it is read so for as long as it lives.",
        example: "TRANLOGOPTIONS TWOPHASE",
        read: tran_log::read,
    },
    Parameter {
        name: "WARNLOGKEPT",
        reader: Reader::Extract,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "size, CRITICAL size",
        default: Some("4G, CRITICAL 16G"),
        summary: "From how much log on that the source keeps for this Extract a warning is given.",
        help: "A source keeps its log until the Extract has read and confirmed it; one that stands still fills the source's \
               disk. Sizes are bytes, or have K, M, G or T. Where the source has a limit of its own (PostgreSQL's \
               `max_slot_wal_keep_size`), half of it is worth a warning and four fifths are critical. The running Extract \
               looks every 30 seconds; see DRV-00430 and DRV-00431.",
        example: "WARNLOGKEPT 10G, CRITICAL 50G",
        read: log_kept::read,
    },
    Parameter {
        name: "TABLE",
        reader: Reader::Tables,
        occurrence: Occurrence::OneOrMore,
        ending: Ending::Semicolon,
        follows: Some(OUTPUTS),
        grammar: "[schema.]table [, KEYCOLS (column, …)] ;",
        default: None,
        summary: "Tables whose changes are captured.",
        help: "Both parts of the name may hold wildcards. A table that is named without a wildcard must exist when the \
               Extract starts; a wildcard also catches tables that are created later.\n\n\
               KEYCOLS names columns that find a row, in place of the table's own key. They must be unique together. Where \
               several statements match a table, the one that names it without a wildcard gives the KEYCOLS, else the \
               first in the file that has them.",
        example: "TABLE main.orders, KEYCOLS (number, line);",
        read: read_table,
    },
    Parameter {
        name: "TABLEEXCLUDE",
        reader: Reader::Tables,
        occurrence: Occurrence::Any,
        ending: Ending::LineOrSemicolon,
        follows: None,
        grammar: "[schema.]table [;]",
        default: None,
        summary: "Tables that are not captured although a TABLE statement matches them.",
        help: "Holds for all TABLE statements, wherever it stands in the file, also for those that name a table without a \
               wildcard.",
        example: "TABLEEXCLUDE main.tmp_*;",
        read: read_table_exclusion,
    },
    Parameter {
        name: "SEQUENCE",
        reader: Reader::Extract,
        occurrence: Occurrence::Any,
        ending: Ending::Semicolon,
        follows: Some(OUTPUTS),
        grammar: "[schema.]sequence ;",
        default: None,
        summary: "Sequences that are carried, so that a target can take over.",
        help: "Both parts of the name may hold wildcards. With every transaction where a selected sequence stands is read and put                behind its rows, if it has moved on; the Replicat, whose MAP statements must name the sequence as they name tables, moves its own                sequence forward, never back. So a target that takes over never hands out a number that a replicated row may hold.",
        example: "SEQUENCE public.*;",
        read: read_sequence,
    },
    Parameter {
        name: "DDL",
        reader: Reader::Either,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "[{INCLUDE | EXCLUDE} {ALL | MAPPED | UNMAPPED | OTHER | OPTYPE word | OBJTYPE 'type' | OBJNAME name | INSTR 'text'} … [,] …]",
        default: None,
        summary: "Which statements that define objects (DDL) are carried.",
        help: definition::HELP,
        example: "DDL INCLUDE MAPPED, EXCLUDE OBJNAME public.tmp_*",
        read: definition::read_definitions,
    },
    Parameter {
        name: "DDLOPTIONS",
        reader: Reader::Either,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "REPORT | NOREPORT",
        default: Some("NOREPORT"),
        summary: "Whether each statement that is carried is told in the report.",
        help: "Statements that are not carried are always told.",
        example: "DDLOPTIONS REPORT",
        read: definition::read_options,
    },
    Parameter {
        name: "DDLERROR",
        reader: Reader::Replicat,
        occurrence: Occurrence::Any,
        ending: Ending::Line,
        follows: None,
        grammar: "{code | DEFAULT} [,] {ABEND | IGNORE} [{INCLUDE | EXCLUDE} clause …]",
        default: Some("DEFAULT ABEND"),
        summary: "What is done when the target refuses a statement that defines objects.",
        help: definition::ERROR_HELP,
        example: "DDLERROR 42P07 IGNORE",
        read: definition::read_error,
    },
    Parameter {
        name: "CACHEMGR",
        reader: Reader::Extract,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "[CACHESIZE size] [,] [CACHEDIRECTORY path]",
        default: Some("CACHESIZE 64MB, CACHEDIRECTORY dirtmp"),
        summary: "Memory and disk for transactions that are open at the source.",
        help: "Where the source tells of transactions before they commit, as PostgreSQL does with large ones, their changes wait \
               here. `CACHESIZE` is the memory for all of them together, with a unit of `KB`, `MB` or `GB`; what goes beyond it \
               lies in files below `CACHEDIRECTORY`, a path relative to the home, until the transaction ends. The files of a process \
               that died are removed at the next start.",
        example: "CACHEMGR CACHESIZE 256MB",
        read: read_cache,
    },
    Parameter {
        name: "BR",
        reader: Reader::Extract,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "[BRINTERVAL n{M|H}] [,] [BRDIR path] [,] [BRKEEPSTALEFILES] [,] [BROFFONFAILURE] | BROFF",
        default: Some("BRINTERVAL 4H, BRDIR dirbr"),
        summary: "Bounded Recovery: a restart reads at most two intervals of log, however long a transaction is open.",
        help: "At a BR checkpoint, every `BRINTERVAL` (20M to 96H), transactions that are open for longer than one interval are \
               written into files below `BRDIR`, a path relative to the home. Keep at least twice the interval of log at the \
               source.\n\n\
               - `BRKEEPSTALEFILES`: files that are needed no more stay, for somebody who looks for a fault.\n\
               - `BROFFONFAILURE`: after a BR checkpoint that failed none is taken until the next start.\n\
               - `BROFF`: no Bounded Recovery.\n\n\
               It works over a source whose log is read from a position. A PostgreSQL slot tells every open transaction again \
               whole after a restart, and SQLite tells no open ones: there nothing is persisted, and the report says so where BR is \
               given. BRRESET is for one start: `START EXTRACT e1, BR BRRESET`.",
        example: "BR BRINTERVAL 2H, BRDIR ./dirbr",
        read: read_bounded,
    },
    Parameter {
        name: "WARNLONGTRANS",
        reader: Reader::Extract,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "age [, CHECKINTERVAL time]",
        default: Some("1H, CHECKINTERVAL 5M"),
        summary: "When a transaction that stays open is worth a warning.",
        help: "Times are numbers with their unit: `S`, `M`, `H` or `D`. The warning names the oldest transaction and comes once in \
               every such time. A PostgreSQL server is asked which transactions are open; a source that can't be asked is known by \
               what it tells before a commit.",
        example: "WARNLONGTRANS 2H, CHECKINTERVAL 10M",
        read: read_long,
    },
    Parameter {
        name: "MAP",
        reader: Reader::Replicat,
        occurrence: Occurrence::OneOrMore,
        ending: Ending::Semicolon,
        follows: None,
        grammar: "[schema.]table, TARGET [schema.]table [, option …] ;",
        default: None,
        summary: "Source tables whose changes are applied, and the target tables that take them.",
        help: "Both parts of the source name may hold wildcards. In the same part of the target name each `*` takes the \
               text that the source's `*` stands for: with `MAP main.a*, TARGET main.b*;` the table `a1` goes to `b1`. \
               Where several statements match a source table, all of them apply it, in file order; a target that \
               several of them name is used once.\n\n\
               - `KEYCOLS (column, …)`: columns of the target that find a row, in place of the target's own key.\n\
               - `REPERROR (…)`, `HANDLECOLLISIONS`, `NOHANDLECOLLISIONS`, `INSERTALLRECORDS`: as the parameters of the \
               same names, for this statement; they have the word before those.\n\
               - `MAPEXCEPTION (TARGET table, INSERTALLRECORDS [, COLMAP (USEDEFAULTS, column = value, …)])`: where rows \
               go whose error has the response EXCEPTION or TRANSEXCEPTION. The exceptions table has the columns of the \
               row and no key; further columns take `@DATENOW ()`, `@GETENV ('LASTERR', 'DBERRNUM' | 'DBERRMSG' | \
               'OPTYPE' | 'ERRTYPE')`, `@GETENV ('TRANSACTION', 'CSN' | 'XID')`, numbers and literals.\n\
               - `EXCEPTIONSONLY, INSERTALLRECORDS [, COLMAP (…)]`: the same as a statement of its own, right behind the \
               MAP that it is for.\n\
               - `COMPARECOLS (ON UPDATE columns, ON DELETE columns)`: which old values must be what stands in the row: \
               `ALL`, `KEY`, `KEYINCLUDING (column, …)` or `ALLEXCLUDING (column, …)`. Else it is a conflict. Only values \
               that the record holds are compared: a PostgreSQL source tells them with REPLICA IDENTITY FULL.\n\
               - `RESOLVECONFLICT (type, (name, method, COLS (column, …)), (DEFAULT, method))`: how a conflict is settled, \
               per group of columns. `INSERTROWEXISTS` and `UPDATEROWEXISTS` take OVERWRITE, IGNORE, DISCARD, USEMIN, \
               USEMINEQ, USEMAX and USEMAXEQ (column), the latter also USEDELTA; `UPDATEROWMISSING` and \
               `DELETEROWEXISTS` OVERWRITE, IGNORE and DISCARD; `DELETEROWMISSING` IGNORE and DISCARD; all of them, with \
               VERSIONCOLS, LATEST; `TRUNCATE` OVERWRITE, which empties the table, IGNORE and DISCARD. What no method settles is an error for REPERROR.\n\
               - `VERSIONCOLS (version [, site])`: the columns with each row's version, in place of COMPARECOLS: a row is in \
               conflict when its version is not the one that the change overwrote. `LATEST` lets the later version stay, also \
               against the version of a row that was deleted; that needs the tables of ADD ERRORQUEUE.\n\
               - `THREAD (n)`, `THREADRANGE (a-b [, column, …])`, of groups that were added with COORDINATED: thread n applies \
               the statement's changes, or among threads a to b the one that the hash of the key says, or of the columns. \
               Without either it is thread 1. A change of the hashed values that moves the row to another thread is \
               applied with its whole transaction while all threads wait, and so is TRUNCATE.\n\
               - `COORDINATED`: so is every transaction with a change of this statement.",
        example: "MAP main.*, TARGET main.*;",
        read: read_map,
    },
    Parameter {
        name: "MAPEXCLUDE",
        reader: Reader::Replicat,
        occurrence: Occurrence::Any,
        ending: Ending::LineOrSemicolon,
        follows: None,
        grammar: "[schema.]table [;]",
        default: None,
        summary: "Source tables that are not applied although a MAP statement matches them.",
        help: "Holds for all MAP statements, wherever it stands in the file, also for those that name a table without a \
               wildcard.",
        example: "MAPEXCLUDE main.audit;",
        read: read_map_exclusion,
    },
    Parameter {
        name: "SOURCEDEFS",
        reader: Reader::Replicat,
        occurrence: Occurrence::Any,
        ending: Ending::Line,
        follows: None,
        grammar: "file",
        default: None,
        summary: "Definitions of the source's tables, for trails that hold none.",
        help: "A file that `drover defgen` wrote at the source. It is needed for trails in the format of release 12.1 or older \
               and for those written with NO_OBJECTDEFS; where a trail holds definitions, those count. A relative path counts \
               from the home. Several files may be named, each with other tables. After a table of the source was altered, \
               write its file anew before the Replicat reads changes that were made since.",
        example: "SOURCEDEFS ./dirdef/source.def",
        read: read_source_definitions,
    },
    Parameter {
        name: "CONFLICTSITES",
        reader: Reader::Replicat,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "sites",
        default: Some("2"),
        summary: "How many sites write the tables that have rules for conflicts.",
        help: "This site counts, and each other one whose changes arrive here, by whatever way. ADD REPLICAT and each start name \
               the methods of RESOLVECONFLICT that may leave so many sites different (DRV-00903): a method that settles two sites may \
               fail with three. 1 says that only one site writes at a time, and nothing is named. It has no effect on rows.",
        example: "CONFLICTSITES 3",
        read: read_conflict_sites,
    },
    Parameter {
        name: "CONFLICTHOOK",
        reader: Reader::Replicat,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "command [argument ...]",
        default: None,
        summary: "A command that is told of conflicts, parked transactions and stops.",
        help: "It is run once for each of them, without a shell, in the home, with one line of JSON on its standard input, after the \
               target transaction was committed. Blanks separate its arguments, and no character means anything else. The values of rows are not in it; they stand in the conflict log. Apply never \
               waits for it: it has 10 seconds, and is then ended by force; while it is busy, at most 1,000 events wait, and what \
               is more is counted and lost. A command that fails is named in the event log (DRV-00910), and the group goes on.",
        example: "CONFLICTHOOK /usr/local/bin/tell-somebody by mail",
        read: read_conflict_hook,
    },
    Parameter {
        name: "GROUPTRANSOPS",
        reader: Reader::Replicat,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "operations",
        default: Some("1000"),
        summary: "How many operations are gathered before a target transaction is committed.",
        help: "Small source transactions are gathered into one target transaction until it holds at least this many \
               operations. A source transaction is never split by it, and what has been gathered is committed early when \
               the end of the trail is reached. 1 keeps each source transaction on its own.",
        example: "GROUPTRANSOPS 2000",
        read: read_group_transactions,
    },
    Parameter {
        name: "APPLY_PARALLELISM",
        reader: Reader::Replicat,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "appliers | CLASSIC",
        default: Some("4"),
        summary: "How many sessions apply at once in a PostgreSQL target.",
        help: "Transactions that touch the same rows, or share a value of a unique key, are committed in the order of the \
               source; others may overtake each other. Each applier is a session of its own, with a replication origin of its own, \
               and a row in the checkpoint table. From 1 to 500.\n\n\
               `CLASSIC` applies one target transaction after another through one session. So do targets other than \
               PostgreSQL, Replicats under whose changes triggers run or foreign keys are checked, runs with \
               NOFILTERDUPTRANSACTIONS, and groups whose checkpoint table is of an earlier version.",
        example: "APPLY_PARALLELISM 8",
        read: read_parallelism,
    },
    Parameter {
        name: "MIN_APPLY_PARALLELISM",
        reader: Reader::Replicat,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "appliers",
        default: None,
        summary: "The least number of appliers, where their number follows the work.",
        help: "With MAX_APPLY_PARALLELISM in place of APPLY_PARALLELISM: the number starts in the middle, grows while work waits \
               for an applier, and shrinks while appliers wait for work.",
        example: "MIN_APPLY_PARALLELISM 2",
        read: read_least_parallelism,
    },
    Parameter {
        name: "MAX_APPLY_PARALLELISM",
        reader: Reader::Replicat,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "appliers",
        default: None,
        summary: "The greatest number of appliers, where their number follows the work.",
        help: "See MIN_APPLY_PARALLELISM. So many sessions are open, whether they are used or not.",
        example: "MAX_APPLY_PARALLELISM 8",
        read: read_most_parallelism,
    },
    Parameter {
        name: "LOOK_AHEAD_TRANSACTIONS",
        reader: Reader::Replicat,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "transactions",
        default: Some("10000"),
        summary: "How many transactions appliers may look ahead of the oldest one that is not applied.",
        help: "The further they look, the more they find that depends on nothing open, and the more names of transactions may \
               have to stand in the checkpoint table. Memory is limited in any case.",
        example: "LOOK_AHEAD_TRANSACTIONS 20000",
        read: read_look_ahead,
    },
    Parameter {
        name: "COMMIT_SERIALIZATION",
        reader: Reader::Replicat,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "",
        default: None,
        summary: "Commits in the target in the order of the source.",
        help: "Nobody ever sees a later transaction without an earlier one. The price: one target transaction is applied after \
               another, as with one applier.",
        example: "COMMIT_SERIALIZATION",
        read: read_commit_serialization,
    },
    Parameter {
        name: "SPLIT_TRANS_RECS",
        reader: Reader::Replicat,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "operations",
        default: None,
        summary: "Splits source transactions with more operations over several target transactions.",
        help: "Without it a source transaction is never split. With it, one with more operations than this is applied in pieces of \
               so many, each in a target transaction of its own, one after another or, where they do not depend on each other, \
               at once. Others see the pieces before the rest is there, and after a failure in its middle the transaction stays half \
               applied until the group goes on: nothing is lost, and no piece is applied twice. In a PostgreSQL target with \
               several appliers. From 100.",
        example: "SPLIT_TRANS_RECS 100000",
        read: read_split,
    },
    Parameter {
        name: "DBOPTIONS",
        reader: Reader::Replicat,
        occurrence: Occurrence::Any,
        ending: Ending::Line,
        follows: None,
        grammar: "[SUPPRESSTRIGGERS | NOSUPPRESSTRIGGERS] [,] [CHECKFOREIGNKEYS | NOCHECKFOREIGNKEYS]",
        default: Some("SUPPRESSTRIGGERS, NOCHECKFOREIGNKEYS"),
        summary: "What becomes of the target's triggers and foreign keys while changes are applied.",
        help: "- `SUPPRESSTRIGGERS`: the target's own triggers do not run. What they did at the source arrives as changes \
               of its own.\n\
               - `NOSUPPRESSTRIGGERS`: they run, as for any other user.\n\
               - `NOCHECKFOREIGNKEYS`: foreign keys of the target are neither checked nor followed. The source has \
               checked them, and rows that its cascades touched arrive as changes of their own.\n\
               - `CHECKFOREIGNKEYS`: they are checked when the target transaction commits; a violation stops the group.",
        example: "DBOPTIONS NOSUPPRESSTRIGGERS, CHECKFOREIGNKEYS",
        read: read_database_options,
    },
    Parameter {
        name: "DECRYPTTRAIL",
        reader: Reader::Replicat,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "",
        default: None,
        summary: "Demands the wallet at the start.",
        help: crate::cover::DECRYPT_HELP,
        example: "DECRYPTTRAIL",
        read: crate::cover::read_decrypt,
    },
    Parameter {
        name: "PURGEOLDEXTRACTS",
        reader: Reader::Either,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "[trail] [, USECHECKPOINTS | NOUSECHECKPOINTS] [, MINKEEPHOURS n | MINKEEPDAYS n | MINKEEPFILES n] \
                  [, FREQUENCYMINUTES n | FREQUENCYHOURS n]",
        default: None,
        summary: "Removes files of the group's trail that nobody needs any more.",
        help: crate::purge::HELP,
        example: "PURGEOLDEXTRACTS ./dirdat/aa, USECHECKPOINTS, MINKEEPDAYS 3",
        read: crate::purge::read,
    },
    Parameter {
        name: "REPERROR",
        reader: Reader::Replicat,
        occurrence: Occurrence::Any,
        ending: Ending::Line,
        follows: None,
        grammar: "(DEFAULT | DEFAULT2 | kind | code, response) | RESET",
        default: Some("(DEFAULT, ABEND)"),
        summary: "What becomes of rows that the target does not take.",
        help: "Holds for the MAP statements that follow, until RESET forgets all rules; an option inside a MAP has the word \
               before it.\n\n\
               The error is a code of the database (an SQLSTATE such as 23505, a result code of SQLite such as 2067), or a \
               kind: MISSING, DUPLICATE, FOREIGNKEY, CONSTRAINT, VALUE. DEFAULT is for all others; DEFAULT2 stands in for it \
               where DEFAULT is EXCEPTION and the table has no exceptions mapping.\n\n\
               - `ABEND`: the transaction is rolled back and the group stops.\n\
               - `DISCARD`: the row goes to the discard file.\n\
               - `IGNORE`: the row is dropped, and counted.\n\
               - `EXCEPTION`: the row goes through the exceptions mapping of its MAP.\n\
               - `RETRYOP [MAXRETRIES n]`: the row is tried again, 10 times if not told otherwise, then the group stops.\n\
               - `TRANSABORT [MAXRETRIES n] [DELAYSECS n | DELAYCSECS n]`: the transaction is rolled back and tried again.\n\
               - `TRANSDISCARD`, `TRANSEXCEPTION`: all rows of the source transaction go to the discard file, or through \
               their exceptions mappings.\n\
               - `TRANSQUEUE [HOLD]`: the source transaction is parked whole in the error queue of the target, from where it can be \
               executed again; ADD ERRORQUEUE makes the queue. With `HOLD`, later transactions that touch rows or unique values \
               of a parked one are parked behind it without being tried.",
        example: "REPERROR (DUPLICATE, DISCARD)",
        read: |cursor, raw, place| {
            raw.toggles.push(("REPERROR", place.clone()));
            read_error_rule(cursor, raw, place)
        },
    },
    Parameter {
        name: "DISCARDFILE",
        reader: Reader::Replicat,
        occurrence: Occurrence::Optional,
        ending: Ending::Line,
        follows: None,
        grammar: "file [, APPEND | PURGE] [, MEGABYTES n]",
        default: Some("./dirrpt/<group>.dsc, APPEND, MEGABYTES 50"),
        summary: "The file that takes rows which are dropped, in a readable form.",
        help: "The path is relative to the home. With PURGE the file starts empty with each run. A file that has reached its \
               size stops the group: nothing is dropped without a trace. After a crash a row may stand in it twice, never not \
               at all.",
        example: "DISCARDFILE ./dirrpt/r1.dsc, APPEND, MEGABYTES 100",
        read: read_discard_file,
    },
    toggle(
        "HANDLECOLLISIONS",
        "Lets inserts overwrite rows that exist, and passes over updates and deletes whose row is missing.",
        "For the time in which changes overlap with an initial load. An insert whose key exists becomes an update of the whole row; an update or a delete that finds no row is dropped and counted; an update of the key whose row is missing becomes an insert, and one whose new key exists takes the place of that row.\n\nHolds for the MAP statements that follow, until NOHANDLECOLLISIONS.",
        |_, raw, place| {
            raw.toggles.push(("HANDLECOLLISIONS", place));
            raw.handling.conversions.handle_collisions = true;
            Ok(())
        },
    ),
    toggle(
        "NOHANDLECOLLISIONS",
        "Turns HANDLECOLLISIONS off for the MAP statements that follow.",
        "",
        |_, raw, place| {
            raw.toggles.push(("NOHANDLECOLLISIONS", place));
            raw.handling.conversions.handle_collisions = false;
            Ok(())
        },
    ),
    toggle(
        "INSERTALLRECORDS",
        "Turns every operation into an insert.",
        "For tables that keep the history of changes. A delete inserts the values that the row had; the source must tell them.\n\nHolds for the MAP statements that follow, until NOINSERTALLRECORDS.",
        |_, raw, place| {
            raw.toggles.push(("INSERTALLRECORDS", place));
            raw.handling.conversions.insert_all_records = true;
            Ok(())
        },
    ),
    toggle(
        "NOINSERTALLRECORDS",
        "Turns INSERTALLRECORDS off for the MAP statements that follow.",
        "",
        |_, raw, place| {
            raw.toggles.push(("NOINSERTALLRECORDS", place));
            raw.handling.conversions.insert_all_records = false;
            Ok(())
        },
    ),
    toggle(
        "INSERTUPDATES",
        "Turns updates into inserts.",
        "The source must tell all values of the row.\n\nHolds for the MAP statements that follow, until NOINSERTUPDATES.",
        |_, raw, place| {
            raw.toggles.push(("INSERTUPDATES", place));
            raw.handling.conversions.insert_updates = true;
            Ok(())
        },
    ),
    toggle("NOINSERTUPDATES", "Turns INSERTUPDATES off for the MAP statements that follow.", "", |_, raw, place| {
        raw.toggles.push(("NOINSERTUPDATES", place));
        raw.handling.conversions.insert_updates = false;
        Ok(())
    }),
    toggle(
        "INSERTDELETES",
        "Turns deletes into inserts.",
        "The source must tell all values that the row had.\n\nHolds for the MAP statements that follow, until NOINSERTDELETES.",
        |_, raw, place| {
            raw.toggles.push(("INSERTDELETES", place));
            raw.handling.conversions.insert_deletes = true;
            Ok(())
        },
    ),
    toggle("NOINSERTDELETES", "Turns INSERTDELETES off for the MAP statements that follow.", "", |_, raw, place| {
        raw.toggles.push(("NOINSERTDELETES", place));
        raw.handling.conversions.insert_deletes = false;
        Ok(())
    }),
    toggle(
        "UPDATEINSERTS",
        "Turns inserts into updates.",
        "The row must be there.\n\nHolds for the MAP statements that follow, until NOUPDATEINSERTS.",
        |_, raw, place| {
            raw.toggles.push(("UPDATEINSERTS", place));
            raw.handling.conversions.update_inserts = true;
            Ok(())
        },
    ),
    toggle("NOUPDATEINSERTS", "Turns UPDATEINSERTS off for the MAP statements that follow.", "", |_, raw, place| {
        raw.toggles.push(("NOUPDATEINSERTS", place));
        raw.handling.conversions.update_inserts = false;
        Ok(())
    }),
    toggle(
        "UPDATEDELETES",
        "Turns deletes into updates with the values that the row had.",
        "The row stays.\n\nHolds for the MAP statements that follow, until NOUPDATEDELETES.",
        |_, raw, place| {
            raw.toggles.push(("UPDATEDELETES", place));
            raw.handling.conversions.update_deletes = true;
            Ok(())
        },
    ),
    toggle("NOUPDATEDELETES", "Turns UPDATEDELETES off for the MAP statements that follow.", "", |_, raw, place| {
        raw.toggles.push(("NOUPDATEDELETES", place));
        raw.handling.conversions.update_deletes = false;
        Ok(())
    }),
    toggle(
        "INSERTMISSINGUPDATES",
        "Turns an update whose row is missing into an insert.",
        "The source must tell all values of the row.\n\nHolds for the MAP statements that follow, until NOINSERTMISSINGUPDATES.",
        |_, raw, place| {
            raw.toggles.push(("INSERTMISSINGUPDATES", place));
            raw.handling.conversions.insert_missing_updates = true;
            Ok(())
        },
    ),
    toggle(
        "NOINSERTMISSINGUPDATES",
        "Turns INSERTMISSINGUPDATES off for the MAP statements that follow.",
        "",
        |_, raw, place| {
            raw.toggles.push(("NOINSERTMISSINGUPDATES", place));
            raw.handling.conversions.insert_missing_updates = false;
            Ok(())
        },
    ),
    toggle(
        "OVERRIDEDUPS",
        "Lets an insert overwrite the row that has its key.",
        "Holds for the MAP statements that follow, until NOOVERRIDEDUPS.",
        |_, raw, place| {
            raw.toggles.push(("OVERRIDEDUPS", place));
            raw.handling.conversions.override_duplicates = true;
            Ok(())
        },
    ),
    toggle("NOOVERRIDEDUPS", "Turns OVERRIDEDUPS off for the MAP statements that follow.", "", |_, raw, place| {
        raw.toggles.push(("NOOVERRIDEDUPS", place));
        raw.handling.conversions.override_duplicates = false;
        Ok(())
    }),
    toggle(
        "ALLOWNOOPUPDATES",
        "Passes over updates that set nothing.",
        "Without it such an update only makes sure that its row is there.\n\nHolds for the MAP statements that follow, until NOALLOWNOOPUPDATES.",
        |_, raw, place| {
            raw.toggles.push(("ALLOWNOOPUPDATES", place));
            raw.handling.conversions.allow_no_op_updates = true;
            Ok(())
        },
    ),
    toggle(
        "NOALLOWNOOPUPDATES",
        "Turns ALLOWNOOPUPDATES off for the MAP statements that follow.",
        "",
        |_, raw, place| {
            raw.toggles.push(("NOALLOWNOOPUPDATES", place));
            raw.handling.conversions.allow_no_op_updates = false;
            Ok(())
        },
    ),
];

/// A parameter of a Replicat that stands alone on its line and holds for the MAP statements that follow.
const fn toggle(
    name: &'static str,
    summary: &'static str,
    help: &'static str,
    read: fn(&mut Cursor<'_>, &mut Raw, Range<usize>) -> Result<(), Diagnostic>,
) -> Parameter {
    Parameter {
        name,
        reader: Reader::Replicat,
        occurrence: Occurrence::Any,
        ending: Ending::Line,
        follows: None,
        grammar: "",
        default: None,
        summary,
        help,
        example: name,
        read,
    }
}

/// The parameter called `name`, in any case.
pub(crate) fn find(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name.eq_ignore_ascii_case(name))
}

fn read_group(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let group = cursor.value("the group name")?;
    raw.group = Some(group.value.to_ascii_uppercase());
    Ok(())
}

fn read_source(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    raw.source = Some(read_url(cursor)?);
    Ok(())
}

fn read_target(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    raw.target = Some(read_url(cursor)?);
    Ok(())
}

fn read_url(cursor: &mut Cursor<'_>) -> Result<DatabaseUrl, Diagnostic> {
    let Written { value, place } = cursor.value("the database URL")?;
    let url = DatabaseUrl::new(value);
    let named = url.scheme().chars().all(|character| character.is_ascii_alphanumeric());
    if url.scheme().is_empty() || !named || url.reveal_after_scheme().is_empty() {
        let next_step = "write product:place, such as sqlite:PATH or postgres://USER@HOST:PORT/DATABASE";
        return Err(cursor.error(place, "the database URL does not name a product and a place", next_step));
    }
    Ok(url)
}

fn read_definitions_file(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    raw.definitions_file = Some(cursor.list_value("the file")?.value);
    let comma = cursor.take(',');
    match cursor.word() {
        Some(word) if word.value.eq_ignore_ascii_case("PURGE") => raw.replaces_definitions = true,
        Some(word) => return Err(unknown_option(cursor, word, "DEFSFILE", &["PURGE"])),
        None if comma => {
            let next_step = "remove the comma, or write an option after it";
            return Err(cursor.error(cursor.end_place(), "an option is missing after `,`", next_step));
        }
        None => {}
    }
    Ok(())
}

fn read_source_definitions(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let Written { value, place } = cursor.list_value("the file")?;
    if raw.source_definitions.contains(&value) {
        return Err(cursor.error(place, "this SOURCEDEFS repeats an earlier one", "remove one of them"));
    }
    raw.source_definitions.push(value);
    cursor.take(',');
    if let Some(word) = cursor.peek_word().filter(|word| word.value.eq_ignore_ascii_case("OVERRIDE")) {
        let next_step = "remove it: definitions that the trail holds are those that its rows were written by";
        return Err(cursor.error(word.place, "OVERRIDE is not supported", next_step));
    }
    Ok(())
}

fn read_trail(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let Written { value, place } = cursor.list_value("the trail")?;
    check_trail(cursor, &value, place)?;
    raw.trail = Some(value);
    let start = cursor.offset();
    trail_format::read_options(cursor, &mut raw.trail_format, "EXTTRAIL")?;
    raw.trail_options = Some(start..cursor.offset()).filter(|_| raw.trail_format != TrailFormat::default());
    Ok(())
}

fn read_file(cursor: &mut Cursor<'_>, raw: &mut Raw, name: Range<usize>) -> Result<(), Diagnostic> {
    let Written { value, place } = cursor.list_value("the file")?;
    check_file(cursor, &value, place)?;
    if raw.encrypt.is_some() {
        let message = "ENCRYPTTRAIL and EXTFILE exclude each other: an encrypted file is never appended to again, so the Extract \
                       could not go on after a restart";
        return Err(cursor.error(name, message, "write a trail with EXTTRAIL, or leave ENCRYPTTRAIL out"));
    }
    raw.trail = Some(value);
    raw.is_single_file = true;
    trail_format::read_options(cursor, &mut raw.trail_format, "EXTFILE")
}

/// Refuses a text that does not end with a name that a single file can have.
pub(crate) fn check_file(cursor: &Cursor<'_>, value: &str, place: Range<usize>) -> Result<(), Diagnostic> {
    const NEXT_STEP: &str = "end the path with a name that no file of a trail has, such as ./dirdat/orders.ext";
    let name = value.rsplit('/').next().unwrap_or_default();
    let is_of_trail = name.get(..2).is_some_and(|start| {
        let mut characters = start.chars();
        let is_trail = characters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && characters.next().is_some_and(|second| second.is_ascii_alphanumeric());
        let digits = name.get(2..).unwrap_or_default();
        is_trail && matches!(digits.len(), 0 | 6 | 9) && digits.bytes().all(|digit| digit.is_ascii_digit())
    });
    let is_beside = [".safe", ".lock", ".new"].iter().any(|end| name.ends_with(end));
    if name.is_empty() || name.starts_with('.') || name.contains('\\') || name.len() > 60 || is_of_trail || is_beside {
        let what = if is_of_trail || is_beside { "belongs to a trail" } else { "is not the name of a file" };
        return Err(cursor.error(place, format!("`{name}` {what}"), NEXT_STEP));
    }
    Ok(())
}

/// Refuses a text that does not end with the name of a trail.
pub(crate) fn check_trail(cursor: &Cursor<'_>, value: &str, place: Range<usize>) -> Result<(), Diagnostic> {
    let name = value.rsplit('/').next().unwrap_or_default();
    let mut characters = name.chars();
    let is_name = characters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && characters.next().is_some_and(|second| second.is_ascii_alphanumeric())
        && characters.next().is_none();
    if !is_name {
        let message = format!("`{name}` is not the name of a trail");
        let next_step = "end the path with a letter and a letter or digit, such as ./dirdat/aa";
        return Err(cursor.error(place, message, next_step));
    }
    Ok(())
}

fn read_table(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let pattern = cursor.name_pattern("a table name")?;
    let key_columns = read_key_columns(cursor, &["KEYCOLS"])?;
    let rule = TableRule { pattern: pattern.value, key_columns };
    if raw.tables.iter().any(|known| known.value.pattern == rule.pattern) {
        return Err(cursor.error(pattern.place, "this TABLE statement repeats an earlier one", "remove one of them"));
    }
    raw.tables.push(Written { value: rule, place: pattern.place });
    Ok(())
}

fn read_sequence(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    raw.sequences.push(cursor.name_pattern("a sequence's name")?);
    Ok(())
}

fn read_table_exclusion(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    raw.table_exclusions.push(cursor.name_pattern("a table name")?);
    Ok(())
}

fn read_map(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let source = cursor.name_pattern("a source table name")?;
    cursor.take(',');
    let next_statement = cursor.starts_statement(|word| find(word).is_some());
    match cursor.peek_word().filter(|_| !next_statement) {
        Some(word) if word.value.eq_ignore_ascii_case("TARGET") => _ = cursor.word(),
        found => {
            let place = found.map_or(cursor.end_place(), |word| word.place);
            let next_step = "write MAP source-table, TARGET target-table;";
            return Err(cursor.error(place, "MAP has no TARGET", next_step));
        }
    }
    let target = cursor.name_pattern("a target table name")?;
    let taken = |part: &Option<crate::pattern::Part>| part.as_ref().map_or(0, |part| part.wildcards());
    if taken(&target.value.schema) > taken(&source.value.schema)
        || target.value.table.wildcards() > source.value.table.wildcards()
    {
        let message = "the target name has a `*` where the source name has none to take the text from";
        let next_step = "give both names a `*` in the same part, or write the target's name in full";
        return Err(cursor.error(target.place, message, next_step));
    }
    let MapStatement { key_columns, mut options } = read_map_options(cursor, raw)?;
    raw.toggles.clear();
    if let Some(place) = options.exceptions_only.take() {
        return read_exceptions_statement(cursor, raw, (source, target), options, place);
    }
    if let Some(column_map) = options.column_map {
        let message = "COLMAP is for exceptions mappings so far";
        return Err(cursor.error(column_map.place, message, "put it into MAPEXCEPTION (…)"));
    }
    check_handling(cursor, &options.handling, &source.place)?;
    let (handling, threads) = (options.handling, options.threads);
    let rule = MapRule { source: source.value, target: target.value, key_columns, handling, threads };
    if raw.maps.iter().any(|known| known.value.source == rule.source && known.value.target == rule.target) {
        return Err(cursor.error(source.place, "this MAP statement repeats an earlier one", "remove one of them"));
    }
    if let Some(place) = options.asks_for_exceptions {
        raw.exceptions_wanted.push((raw.maps.len(), place));
    }
    raw.maps.push(Written { value: rule, place: source.place });
    Ok(())
}

struct MapStatement {
    key_columns: Option<Vec<ColumnName>>,
    options: MapOptions,
}

/// Reads the options of a MAP; what was set on lines of their own before it holds too.
fn read_map_options(cursor: &mut Cursor<'_>, raw: &Raw) -> Result<MapStatement, Diagnostic> {
    let mut key_columns = None;
    let mut options = MapOptions { handling: raw.handling.clone(), ..MapOptions::default() };
    while cursor.take(',') {
        let next_statement = cursor.starts_statement(|word| find(word).is_some() && !is_map_option(word));
        match cursor.peek_word().filter(|_| !next_statement) {
            None => {
                let next_step = "remove the comma, or write an option after it";
                return Err(cursor.error(cursor.end_place(), "an option is missing after `,`", next_step));
            }
            Some(word) if word.value.eq_ignore_ascii_case("KEYCOLS") => {
                if key_columns.is_some() {
                    return Err(cursor.error(word.place, "KEYCOLS is given more than once", "keep one of them"));
                }
                key_columns = read_key_column_list(cursor)?;
            }
            Some(word) if is_map_option(word.value) => {
                cursor.word();
                map_option(cursor, &mut options, &word)?;
            }
            Some(word) => return Err(unknown_option(cursor, word, "this statement", &MAP_OPTIONS)),
        }
    }
    Ok(MapStatement { key_columns, options })
}

fn is_map_option(word: &str) -> bool {
    MAP_OPTIONS.iter().any(|option| option.eq_ignore_ascii_case(word))
}

/// A MAP with EXCEPTIONSONLY stands right behind the MAP that it is for.
fn read_exceptions_statement(
    cursor: &Cursor<'_>,
    raw: &mut Raw,
    (source, target): (Written<NamePattern>, Written<NamePattern>),
    options: MapOptions,
    place: Range<usize>,
) -> Result<(), Diagnostic> {
    if source.value.has_wildcard() || target.value.has_wildcard() {
        let message = "EXCEPTIONSONLY is for a MAP that names its tables without wildcards";
        return Err(cursor.error(place, message, "use MAPEXCEPTION in the MAP with wildcards"));
    }
    if !options.handling.conversions.insert_all_records {
        let message = "EXCEPTIONSONLY needs INSERTALLRECORDS: an exceptions table keeps every operation as a row";
        return Err(cursor.error(place, message, "add INSERTALLRECORDS"));
    }
    let before = raw.maps.last_mut().filter(|before| before.value.source == source.value);
    let Some(before) = before else {
        let message = "EXCEPTIONSONLY stands right behind the MAP of the same source table, and here it does not";
        return Err(cursor.error(place, message, "put it right behind that MAP"));
    };
    if before.value.handling.exceptions.is_some() {
        let message = "the MAP before it has an exceptions mapping already";
        return Err(cursor.error(place, message, "keep one of them"));
    }
    let columns = options.column_map.map(|map| map.value).unwrap_or_default();
    before.value.handling.exceptions = Some(ExceptionsRule { target: target.value, columns });
    Ok(())
}

/// Refuses options of one MAP that contradict each other or have no effect.
fn check_handling(cursor: &Cursor<'_>, handling: &HandlingRule, place: &Range<usize>) -> Result<(), Diagnostic> {
    let settles = |kind: ConflictType| handling.conflicts.iter().any(|clause| clause.kind == kind);
    for (kind, compares, operation) in [
        (ConflictType::UpdateRowExists, handling.compare_update.is_some(), "UPDATE"),
        (ConflictType::DeleteRowExists, handling.compare_delete.is_some(), "DELETE"),
    ] {
        if settles(kind) && !compares && handling.version.is_none() {
            let message = format!("{} is never found: nothing is compared for it", kind.word());
            let next_step = format!("add COMPARECOLS (ON {operation} ALL)");
            return Err(cursor.error(place.clone(), message, next_step));
        }
    }
    let is_latest = |part: &ConflictPart<ColumnName>| part.method == ConflictMethod::Latest;
    let asks_latest = handling.conflicts.iter().any(|clause| clause.parts.iter().any(is_latest));
    if asks_latest && handling.version.is_none() {
        let message = "LATEST compares versions, and no column holds them";
        return Err(cursor.error(place.clone(), message, "add VERSIONCOLS (column)"));
    }
    if handling.version.is_some() && (handling.compare_update.is_some() || handling.compare_delete.is_some()) {
        let message = "VERSIONCOLS and COMPARECOLS decide the same";
        return Err(cursor.error(place.clone(), message, "keep one of them"));
    }
    if handling.conversions.handle_collisions && !handling.conflicts.is_empty() {
        let message = "HANDLECOLLISIONS and RESOLVECONFLICT decide the same";
        return Err(cursor.error(place.clone(), message, "keep one of them; NOHANDLECOLLISIONS turns the other off"));
    }
    if handling.conversions.convert()
        && (handling.compare_update.is_some() || handling.version.is_some() || !handling.conflicts.is_empty())
    {
        let message = "conflicts can't be settled for operations that are turned into others";
        return Err(cursor.error(place.clone(), message, "give the table a MAP without the conversion"));
    }
    Ok(())
}

fn read_map_exclusion(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    raw.map_exclusions.push(cursor.name_pattern("a table name")?);
    Ok(())
}

fn read_conflict_sites(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let Written { value, place } = cursor.value("the number of sites")?;
    match value.parse() {
        Ok(number @ 1..=CONFLICT_SITES_MAX) => raw.conflict_sites = Some(number),
        _ => {
            let message = format!("`{value}` is no number of sites");
            return Err(cursor.error(place, message, format!("give a number from 1 to {CONFLICT_SITES_MAX}")));
        }
    }
    Ok(())
}

fn read_conflict_hook(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    raw.conflict_hook.push(cursor.value("the command")?.value);
    while cursor.peek_word().is_some() {
        raw.conflict_hook.push(cursor.value("an argument")?.value);
    }
    Ok(())
}

fn read_group_transactions(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let Written { value, place } = cursor.value("the number of operations")?;
    match value.parse::<u32>() {
        Ok(number) if number > 0 => raw.group_transactions = Some(number),
        _ => {
            let message = format!("`{value}` is not a number of operations");
            let next_step = format!("write a whole number from 1 to {}", u32::MAX);
            return Err(cursor.error(place, message, next_step));
        }
    }
    Ok(())
}

/// Appliers that a checkpoint table has room for.
const APPLIERS_MAX: u32 = 500;

fn read_number(cursor: &mut Cursor<'_>, what: &str, most: u32) -> Result<Written<u32>, Diagnostic> {
    let Written { value, place } = cursor.value(&format!("the number of {what}"))?;
    match value.parse::<u32>() {
        Ok(number) if (1..=most).contains(&number) => Ok(Written { value: number, place }),
        _ => {
            let message = format!("`{value}` is not a number of {what}");
            Err(cursor.error(place, message, format!("write a whole number from 1 to {most}")))
        }
    }
}

fn read_parallelism(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    if raw.least_appliers.is_some() || raw.most_appliers.is_some() {
        return Err(both_parallelisms(cursor, place));
    }
    if cursor.peek_word().is_some_and(|word| word.value.eq_ignore_ascii_case("CLASSIC")) {
        cursor.word();
        raw.appliers = Some(None);
        return Ok(());
    }
    raw.appliers = Some(Some(read_number(cursor, "appliers", APPLIERS_MAX)?.value));
    Ok(())
}

fn both_parallelisms(cursor: &Cursor<'_>, place: Range<usize>) -> Diagnostic {
    let message = "APPLY_PARALLELISM fixes what MIN_APPLY_PARALLELISM and MAX_APPLY_PARALLELISM let move";
    cursor.error(place, message, "keep APPLY_PARALLELISM, or the other two")
}

fn read_least_parallelism(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    if raw.appliers.is_some() {
        return Err(both_parallelisms(cursor, place));
    }
    let least = read_number(cursor, "appliers", APPLIERS_MAX)?;
    raw.least_appliers = Some(least.value);
    check_range(cursor, raw, least.place)
}

fn read_most_parallelism(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    if raw.appliers.is_some() {
        return Err(both_parallelisms(cursor, place));
    }
    let most = read_number(cursor, "appliers", APPLIERS_MAX)?;
    raw.most_appliers = Some(most.value);
    check_range(cursor, raw, most.place)
}

fn check_range(cursor: &Cursor<'_>, raw: &Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    match (raw.least_appliers, raw.most_appliers) {
        (Some(least), Some(most)) if least > most => {
            let message = format!("at least {least} and at most {most} appliers can't be had at once");
            Err(cursor.error(place, message, "let MIN_APPLY_PARALLELISM be the smaller number"))
        }
        _ => Ok(()),
    }
}

fn read_look_ahead(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    raw.look_ahead = Some(read_number(cursor, "transactions", 1_000_000)?.value);
    Ok(())
}

fn read_split(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let Written { value, place: number } = read_number(cursor, "operations", u32::MAX)?;
    if value < SPLIT_MIN {
        let message = format!("SPLIT_TRANS_RECS {value} would make a target transaction of almost every row");
        return Err(cursor.error(number, message, format!("write a number from {SPLIT_MIN}")));
    }
    raw.split_operations = Some(value);
    Ok(())
}

fn read_commit_serialization(_: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    raw.commit_serialization = true;
    Ok(())
}

fn read_database_options(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    const OPTIONS: [&str; 4] = ["SUPPRESSTRIGGERS", "NOSUPPRESSTRIGGERS", "CHECKFOREIGNKEYS", "NOCHECKFOREIGNKEYS"];
    let mut any = false;
    while let Some(word) = cursor.word() {
        any = true;
        let option = word.value.to_ascii_uppercase();
        let (setting, on) = match option.as_str() {
            "SUPPRESSTRIGGERS" => (&mut raw.fire_triggers, false),
            "NOSUPPRESSTRIGGERS" => (&mut raw.fire_triggers, true),
            "CHECKFOREIGNKEYS" => (&mut raw.check_foreign_keys, true),
            "NOCHECKFOREIGNKEYS" => (&mut raw.check_foreign_keys, false),
            _ => return Err(unknown_option(cursor, word, "DBOPTIONS", &OPTIONS)),
        };
        if setting.replace(on).is_some() {
            let message = format!("{option} decides what an earlier option decided");
            return Err(cursor.error(word.place, message, "keep one of the two options"));
        }
        cursor.take(',');
    }
    if any {
        Ok(())
    } else {
        Err(cursor.error(place, "DBOPTIONS has no option", format!("write one of {}", OPTIONS.join(", "))))
    }
}

/// Reads `[,] KEYCOLS (column, …)`, if an option follows. `options` are those that the statement knows.
fn read_key_columns(cursor: &mut Cursor<'_>, options: &[&str]) -> Result<Option<Vec<ColumnName>>, Diagnostic> {
    let comma = cursor.take(',');
    let word = match cursor.peek_word() {
        Some(word) if word.value.eq_ignore_ascii_case("KEYCOLS") => word,
        Some(word) if comma => {
            return Err(unknown_option(cursor, word, "this statement", options));
        }
        None if comma => {
            let next_step = "remove the comma, or write an option after it";
            return Err(cursor.error(cursor.end_place(), "an option is missing after `,`", next_step));
        }
        _ => return Ok(None),
    };
    debug_assert!(word.value.eq_ignore_ascii_case("KEYCOLS"));
    read_key_column_list(cursor)
}

/// Reads `KEYCOLS (column, …)`, of which the word comes next.
fn read_key_column_list(cursor: &mut Cursor<'_>) -> Result<Option<Vec<ColumnName>>, Diagnostic> {
    let Some(word) = cursor.word() else { return Ok(None) };
    let mut columns: Vec<ColumnName> = Vec::new();
    let next_step = "write KEYCOLS (column, column, …)";
    if !cursor.take('(') {
        return Err(cursor.error(word.place, "KEYCOLS has no list of columns", next_step));
    }
    loop {
        let Written { value: (name, quoted), place } = cursor.column_name()?;
        let column = ColumnName { name, quoted };
        if columns.contains(&column) {
            return Err(cursor.error(
                place,
                format!("the column {} stands twice in KEYCOLS", column.name),
                "name it once",
            ));
        }
        columns.push(column);
        if cursor.take(')') {
            return Ok(Some(columns));
        }
        if !cursor.take(',') {
            return Err(cursor.error(cursor.end_place(), "`,` or `)` is missing in the list of KEYCOLS", next_step));
        }
    }
}

pub(crate) fn unknown_option(cursor: &Cursor<'_>, word: Written<&str>, owner: &str, options: &[&str]) -> Diagnostic {
    let next_step = match nearest(word.value, options.iter().copied()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("{owner} knows {}", options.join(", ")),
    };
    cursor.error(word.place, format!("unknown option `{}`", word.value), next_step)
}
