//! Message codes. Each has a page in `docs/messages`, compiled in.

use std::fmt;

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Worth knowing.
    Info,
    /// The group goes on, but somebody should look.
    Warning,
    /// The group stops.
    Error,
}

/// Writes `INFO`, `WARNING` or `ERROR`.
impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Level::Info => "INFO",
            Level::Warning => "WARNING",
            Level::Error => "ERROR",
        })
    }
}

macro_rules! codes {
    ($($number:literal $name:ident $level:ident $next_step:literal $(passing $passing:ident)?;)*) => {
        /// What kind of thing a message is about, shown as `DRV-nnnnn`.
        ///
        /// Numbers never change their meaning. What each means, and what to do, stands on its [page](Code::page).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each variant is documented by its page in docs/messages")]
        pub enum Code {
            $($name,)*
        }

        impl Code {
            /// All codes, in the order of their numbers.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The code's text, `DRV-nnnnn`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => concat!("DRV-", $number),)*
                }
            }

            /// The page that explains it, as Markdown.
            pub fn page(self) -> &'static str {
                match self {
                    $(Code::$name => include_str!(concat!("../../../docs/messages/DRV-", $number, ".md")),)*
                }
            }

            /// How much it matters.
            pub fn level(self) -> Level {
                match self {
                    $(Code::$name => Level::$level,)*
                }
            }

            /// What the operator can do when nothing more precise is known; empty when nothing needs to be done.
            pub fn next_step(self) -> &'static str {
                match self {
                    $(Code::$name => $next_step,)*
                }
            }

            /// Whether the cause may go away by itself, so that trying again makes sense.
            pub fn is_passing(self) -> bool {
                match self {
                    $($(Code::$passing => true,)?)*
                    _ => false,
                }
            }
        }
    };
}

codes! {
    // The life of a group.
    "00001" GroupStarted Info "";
    "00002" GroupStopped Info "";
    "00003" GroupAbended Error "mend the cause that is named above and start the group again: it goes on where it was";
    "00004" Command Info "";
    "00005" Notice Info "";
    "00006" Retrying Warning "nothing, if the cause goes away; the group tries again by itself";
    "00099" Internal Error "keep the report and the trail, and report the failure; the group may be started again";

    // Parameter files.
    "00101" ParameterWrong Error "correct the parameter file and start the group again";
    "00102" ParameterFileMissing Error "write the parameter file, or start the group with the home that has it";

    // Home and groups.
    "00201" HomeUnusable Error "give the home with --home, or make one with: drover init HOME";
    "00202" GroupRunning Error "stop the running process first, or let it run";
    "00203" HomeInUse Error "wait for the other command to end, then try again";
    "00204" GroupNameWrong Error "use a letter and then letters, digits, _ or $, at most 8 characters";
    "00205" HomeRefused Error "look at the cause: rights and room in the home";

    // Checkpoints.
    "00301" CheckpointLost Error "if the group is new, add it with ADD; if it ran before, restore the file from a copy, and do not add the group again before you know what it has processed";
    "00302" CheckpointDamaged Error "restore the file from a copy; with none, delete the group, add it again at a known position and compare the tables";
    "00303" CheckpointForeign Error "put the group's own file back, or run it with the version that wrote the file";
    "00304" CheckpointDiskFull Error "make room on the disk of the home and start the group again";
    "00305" CheckpointRefused Error "look at the cause, mend it, and start the group again";
    "00306" CheckpointRowMissing Error "restore the row of the group in the checkpoint table; without it nobody knows what the target holds, so compare the tables before adding the group anew";
    "00307" CheckpointTableMissing Error "create it with ADD CHECKPOINTTABLE, or restore it if the group ran before";
    "00308" GroupExists Error "choose another name, or delete the group first";

    // What a trail can and can't say.
    "00321" RecordInapplicable Error "do at the target what the record stands for, then alter the group to start behind it";
    "00322" TrailFormatWrong Error "change the format in the parameter file, or give the group a new trail";
    "00323" DefinitionMissing Error "write the definitions of the source's tables with drover defgen and name the file with SOURCEDEFS, or let the trail be written with OBJECTDEFS";
    "00324" PartitionUntold Error "take the PARTITION and PARTITIONEXCLUDE statements out of the parameter file";
    "00325" DefinitionsFileWrong Error "look at the cause, or write the file anew with drover defgen";

    "00330" PartitionUnfit Error "correct the name, or take the statement out of the parameter file";
    "00331" PartitionTruncated Error "delete the rows at the target as well, and add the group anew";
    "00332" PreparedLost Error "put back the files of prepared transactions in dirbr; with none, add the group anew and copy the tables";
    "00333" TransactionForced Warning "compare the tables of the transaction with drover compare once it has ended";

    // Trails.
    "00401" TrailDamaged Error "restore the trail file from a copy; with none, start behind the damage and compare the tables";
    "00402" TrailForeign Error "read the file with the product and version that wrote it";
    "00403" TrailMismatch Error "restore the trail's files, or position the group where the trail goes on and compare the tables";
    "00404" TrailDiskFull Error "make room on the disk of the trail and start the group again: nothing is lost";
    "00405" TrailRefused Error "look at the cause, mend it, and start the group again";
    "00406" TrailFileMissing Error "restore the trail file, or position the group behind it and compare the tables";
    "00407" TrailInUse Error "stop the other writer first, or give this group a trail of its own";
    "00408" ChangeRefused Error "leave the table out with TABLEEXCLUDE, or make the value smaller at the source";

    // Open transactions.
    "00421" OpenTransactionsFull Error "make room on the disk of dirtmp, or raise CACHEMGR CACHESIZE, and start the group again: nothing is lost";
    "00422" OpenTransactionsDamaged Error "look at the disk, and start the group again: the source tells again what was open";
    "00423" OpenTransactionsRefused Error "look at the cause, mend it, and start the group again";
    "00424" BoundedRecoveryUnused Warning "nothing: the log is read from the oldest open transaction on";
    "00425" BoundedRecoveryFailed Warning "look at the cause; until it is mended a restart may read more log";
    "00426" TransactionLong Warning "find out who keeps the transaction open, and end it at the source if it was forgotten";
    "00427" LogShort Warning "keep at least twice BRINTERVAL of log at the source, or make BRINTERVAL shorter";

    // The log that a source keeps.
    "00430" LogKept Warning "find out why the Extract does not come forward, and watch the room on the source's disk";
    "00431" LogKeptCritical Warning "let the Extract come forward at once, or give the source room: else its disk fills, or it throws away what was not captured";
    "00432" LogKeptAgain Info "";

    // Trails that are sent on.
    "00460" TargetTrailLost Error "bring the files of the target trail back; or let readers of it be positioned anew, ALTER the sender to where it shall begin, and compare the tables";
    "00461" TargetTrailUnlike Error "give the sender a target trail of its own, or bring the files of its source trail back";
    "00462" TargetTrailShort Warning "find out who removed files of the target trail, and compare the tables of its readers if they had gone further";
    "00463" PathProtocol Error "use the same version of Drover at both ends, and start the sender again";

    // Sources.
    "00501" TableMissing Error "create the table, or take its statement out of the parameter file";
    "00502" TableUncapturable Error "give the table a primary key, name one with KEYCOLS, or leave the table out with TABLEEXCLUDE";
    "00503" SourceMismatch Error "if the database was restored or replaced, delete and add the Extract, and compare the tables";
    "00504" CaptureMissing Error "delete and add the Extract, and compare the tables: changes since the removal were not captured";

    // Databases.
    "00601" DatabaseUnreachable Warning "start the database or mend the connection; the group tries again by itself" passing DatabaseUnreachable;
    "00602" DatabaseBusy Warning "end the transaction that holds the lock; the group tries again by itself" passing DatabaseBusy;
    "00603" DatabaseDenied Error "grant the right that is named";
    "00604" DatabaseUnsupported Error "change the table or setting that is named, or leave the table out";
    "00605" DatabaseDiskFull Error "make room on the disk of the database and start the group again: nothing is lost";
    "00606" DatabaseDamaged Error "restore the database, and compare the tables before the group goes on";
    "00607" DatabaseFailed Error "look at the cause, mend it, and start the group again";

    // The checkpoint table.
    "00651" CheckpointRulesChanged Error "put the old MAP statements back, bring the group to one point with SYNCHRONIZE REPLICAT, then change them";
    "00652" CheckpointTableAltered Error "undo the change that is named; storage attributes may be changed, columns and keys may not";
    "00653" CheckpointRowAltered Error "undo the change of the row, or restore it from a backup of the target; with neither, compare the tables before the group goes on";
    "00654" StartCsnWrong Error "give the CSN as INFO REPLICAT and drover logdump show it, with all its digits";

    // Applying rows.
    "00701" RowMissing Error "compare the row at both sides, put it right at the target, and start the group again";
    "00702" RowDuplicate Error "compare the row at both sides, put it right at the target, and start the group again";
    "00703" ForeignKeyViolated Error "put the row that is referred to right, or set DBOPTIONS NOCHECKFOREIGNKEYS";
    "00704" ConstraintViolated Error "make the constraint of the target fit the source's data, and start the group again";
    "00705" ValueRefused Error "make the column of the target fit the source's data, and start the group again";
    "00706" TargetTableMissing Error "create the table at the target, or take it out with MAPEXCLUDE";
    "00707" TableUnlike Error "make the columns of both tables alike";
    "00708" TargetKeyMissing Error "give the target table a primary key, or name one with KEYCOLS";
    "00709" CopyUnfinished Error "finish the initial copy with drover copy, then start the group again";
    "00720" DiscardRefused Error "make room, or give a larger MEGABYTES to DISCARDFILE, and start the group again: nothing is lost";
    "00721" HandlingUnfit Error "correct the option in the parameter file, and start the group again";

    // Statements that define objects.
    "00750" DefinitionUntold Error "do at the target what the statement did, leave the statement out by an EXCLUDE of DDL, and start the group again";
    "00751" DefinitionPassedOver Info "";
    "00752" DefinitionRefused Error "mend at the target what is in the way and start the group again: it goes on with this statement";
    "00753" DefinitionIgnored Warning "look whether the target is as it must be, and do by hand what is missing";
    "00754" DefinitionCarried Info "";
    "00755" EventTriggerMissing Warning "let a superuser run UNREGISTER EXTRACT and ADD EXTRACT, or change definitions at both sides by hand";
    "00756" SequenceUnusable Error "create the sequence at the target, or take it out of the SEQUENCE statement";

    // Requests to running groups.
    "00770" CommandsUnheard Warning "look at the cause and mend it, then start the group again; until then it can be stopped with SIGTERM";
    "00771" TransactionSkipped Warning "nothing; DRV-00772 tells when the transaction commits, and how much was left out";
    "00772" TransactionLeftOut Warning "copy the rows that the transaction changed, if the target needs them";
    "00773" ForceRefused Warning "commit the transaction at the source, or leave it out with SKIPTRANS";
    "00774" GroupNotRunning Error "start the group, or look with INFO ALL why it ended";
    "00775" GroupSilent Error "ask again; a group that hangs is stopped with SIGTERM, and one that does not end then with SIGKILL: nothing is lost";

    // Trails between homes.
    "00780" PathUnreachable Warning "start the receiver at the other end, or mend the network; the sender tries again by itself" passing PathUnreachable;
    "00781" PathCertificate Error "give both homes a certificate, and let each believe the other's: ADD CERTIFICATE and ADD PEER; see docs/guides/distribution.md";
    "00782" PathRefused Error "look at the receiver's event log, mend the cause, and start the sender again";
    "00783" TargetTrailTaken Error "give the sender a target trail of its own; if the earlier sender is gone for good, remove the trail's .received file from dirchk of the receiver's home";
    "00784" TargetRefusesNow Warning "make room at the other end, or see what its event log says; the sender tries again by itself" passing TargetRefusesNow;
    "00785" ReceiverStarted Info "";
    "00786" ReceiverStopped Info "";
    "00787" SenderConnected Info "";
    "00788" SenderGone Warning "if it does not connect again, look at its report";

    // Purging trails.
    "00810" TrailPurged Info "";
    "00811" ReaderCutOff Warning "position the reader anew where the trail begins now, and compare its tables; or restore the files from a copy";
    "00812" PurgeRefused Warning "look at the cause and mend it; until then no file of the trail is removed";

    // Encryption.
    "00813" TrailKey Error "bring the wallet of the home that wrote the file into this home, then start the group again";
    "00814" WalletUnusable Error "create it with CREATE WALLET and ADD MASTERKEY, or put the home's own wallet back";

    // Heartbeats.
    "00830" HeartbeatJobFailed Warning "look at the cause; until then the heartbeats of this database stand still, and the rest goes on";
    "00831" HeartbeatLate Warning "see with LAG which hop is late, and whether the groups on the way run";
    "00832" HeartbeatAgain Info "";
    "00833" ClocksDisagree Warning "let the clocks of source, target and the machines between them follow one time server";

    // How a Replicat shares its work.
    "00850" GroupModeUnfit Error "make the parameter file fit the mode that ADD REPLICAT gave the group";
    "00851" OriginsShort Warning "give the role the right, or the target a larger max_replication_slots; nothing is wrong until then";

    // The error queue and conflicts.
    "00900" TransactionParked Warning "look at it with INFO ERROR, put its cause right, then EXECUTE ERROR, or DELETE ERROR";
    "00901" ErrorQueueMissing Error "create it with ADD ERRORQUEUE, and start the group again";
    "00902" ErrorQueueRefused Error "look at the cause, mend it, and start the group again: nothing is lost";
    "00903" ConflictMethodDiverges Warning "choose a method that leaves all sites equal, or make sure of what the message names";
    "00910" ConflictHookFailed Warning "run the command of CONFLICTHOOK by hand with a line of JSON on its standard input; what it was to be told stands in the conflict log";

    // Looking into trails.
    "00930" TrailToolRefused Error "correct what was asked for; drover trail help says what can be";
    "00931" TrailToolFailed Error "look at the cause, mend it, and try again: nothing was changed";
    "00932" UndoRefused Error "reverse the transaction by hand, or from a backup of the table; from now on let the source tell whole rows";
}

impl Code {
    /// The code that is written as `text`: `DRV-00401`, `00401` or `401`.
    pub fn parse(text: &str) -> Option<Code> {
        let digits = text.strip_prefix("DRV-").or(text.strip_prefix("drv-")).unwrap_or(text);
        let number: u32 = digits.parse().ok()?;
        Code::ALL.iter().copied().find(|code| code.as_str() == format!("DRV-{number:05}"))
    }

    /// What it is about, in a few words: the title of its page.
    pub fn title(self) -> &'static str {
        let first = self.page().lines().next().unwrap_or_default();
        first.split_once(": ").map_or(first, |(_, title)| title)
    }
}

/// The text of `docs/reference/messages.md`: all codes with their titles.
pub fn message_reference() -> String {
    let mut page =
        "# Messages\n\nReports and the event log show each message with a code. This page is generated from the \
                    table of codes that the program itself uses.\n\n| code | level | about |\n|---|---|---|\n"
            .to_owned();
    for code in Code::ALL {
        page.push_str(&format!("| [{code}](../messages/{code}.md) | {} | {} |\n", code.level(), code.title()));
    }
    page
}

/// Writes `DRV-nnnnn`.
impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}
