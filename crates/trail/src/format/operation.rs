//! Operation numbers (IOType): every one that is publicly known, by number and name.

/// A row was deleted; the data is what it was.
pub const DELETE: u8 = 3;
/// A row was inserted.
pub const INSERT: u8 = 5;
/// A row was updated. With columns as data it is read as [`UPDATE`]; as a full image it comes from NonStop only.
pub const FULL_UPDATE: u8 = 10;
/// A row was updated; the data is what is known of it afterwards, or before when the record is marked `B`.
pub const UPDATE: u8 = 15;
/// All rows of a table were removed.
pub const TRUNCATE: u8 = 100;
/// A key was updated: 16-bit length, key before, row after.
pub const KEY_UPDATE: u8 = 115;
/// A chunk of a long value in another product's form.
pub const LARGE_OBJECT: u8 = 116;
/// As 115 with a 32-bit length.
pub const KEY_UPDATE_WIDE: u8 = 117;
/// Where a sequence stands.
pub const SEQUENCE: u8 = 132;
/// A row was updated: row before and row after in one record.
pub const UNIFIED_UPDATE: u8 = 134;
/// As 134, and the key is another one afterwards.
pub const UNIFIED_KEY_UPDATE: u8 = 135;
/// The writer started again after an abnormal end.
pub const RESTART_ABEND: u8 = 150;
/// The writer started again after a clean end.
pub const RESTART_OK: u8 = 151;
/// A statement that defines objects.
pub const DDL: u8 = 160;
/// A part of a record that is too long.
pub const FRAGMENT: u8 = 161;
/// A definition.
pub const METADATA: u8 = 170;
/// A remark of whoever made the file.
pub const COMMENT: u8 = 205;

/// What is known of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationType {
    /// IOType.
    pub number: u8,
    /// Its name, as Logdump prints it.
    pub name: &'static str,
    /// What it stands for.
    pub meaning: &'static str,
    /// Whether this product writes it. All others are read past and shown.
    pub is_written: bool,
}

const fn known(number: u8, name: &'static str, meaning: &'static str) -> OperationType {
    OperationType { number, name, meaning, is_written: false }
}

const fn written(number: u8, name: &'static str, meaning: &'static str) -> OperationType {
    OperationType { number, name, meaning, is_written: true }
}

/// Every operation, ascending by number.
pub const ALL: &[OperationType] = &[
    known(1, "Abort", "NonStop TMF: a transaction was aborted"),
    known(2, "Commit", "NonStop TMF: a transaction was committed"),
    written(DELETE, "Delete", "a row was deleted; the row before, or its key"),
    known(4, "EndRollBack", "NonStop TMF: a database rollback ended"),
    written(INSERT, "Insert", "a row was inserted; the row after"),
    known(6, "Prepared", "NonStop TMF: a network transaction was prepared"),
    known(7, "TMF-Shutdown", "NonStop TMF: a shutdown"),
    known(8, "TransBegin", "NonStop TMF: not used any more"),
    known(9, "TransRelease", "NonStop TMF: not used any more"),
    known(FULL_UPDATE, "Update", "a row was updated; a full image, or columns when the partition flag is 4"),
    known(11, "UpdateComp", "NonStop TMF: an update as changed bytes"),
    known(12, "FileAlter", "NonStop: an attribute of a file was changed"),
    known(13, "FileCreate", "NonStop: a file was created"),
    known(14, "FilePurge", "NonStop: a file was removed"),
    written(UPDATE, "FieldComp", "a row was updated; columns after, or before when marked B"),
    known(16, "FileRename", "NonStop: a file was renamed"),
    known(17, "AuxPointer", "NonStop TMF: which auxiliary trails have new data"),
    known(18, "NetworkCommit", "NonStop TMF: a network transaction was committed"),
    known(19, "NetworkAbort", "NonStop TMF: a network transaction was aborted"),
    known(90, "GGSSQLCol", "NonStop: columns of an SQL table were added or changed"),
    written(TRUNCATE, "GGSPurgedata", "all rows of a table were removed"),
    known(101, "GGSPurgeFile", "NonStop without TMF: a file was purged"),
    known(102, "GGSCreateFile", "NonStop without TMF: a file was created"),
    known(103, "GGSAlterFile", "NonStop without TMF: a file was altered"),
    known(104, "GGSRenameFile", "NonStop without TMF: a file was renamed"),
    known(105, "GGSSetmode", "NonStop without TMF: a SETMODE operation"),
    known(106, "GGSChangeLabel", "NonStop without TMF: a CHANGELABEL operation"),
    known(107, "GGSControl", "NonStop without TMF: a CONTROL operation"),
    written(KEY_UPDATE, "GGSPKUpdate", "a key was updated; 16-bit length, key before, columns after"),
    known(LARGE_OBJECT, "LargeObject", "a chunk of a long value in another product's form"),
    written(KEY_UPDATE_WIDE, "GGSPKUpdate", "as 115 with a 32-bit length; inside parts of a long record"),
    written(SEQUENCE, "SequenceOp", "where a sequence stands"),
    written(UNIFIED_UPDATE, "GGSUnifiedUpdate", "a row was updated; columns before and after in one record"),
    written(UNIFIED_KEY_UPDATE, "GGSUnifiedPKUpdate", "as 134, and the key is another one afterwards"),
    known(140, "Upsert", "a row was inserted, or updated where it was there"),
    written(RESTART_ABEND, "RestartAbend", "the writer started again after an abnormal end"),
    written(RESTART_OK, "RestartOK", "the writer started again after a clean end"),
    written(DDL, "DDLOP", "a statement that makes, alters or removes objects"),
    written(FRAGMENT, "RecordFragment", "a part of a record that is too long for one"),
    written(METADATA, "Metadata", "a definition of the database, a table or a partition"),
    known(200, "GGSUnstructBlock", "NonStop without TMF: a BULKIO operation"),
    known(201, "Trace-201", "NonStop: a trace record"),
    known(202, "Trace-202", "NonStop: a trace record"),
    known(203, "Trace-203", "NonStop: a trace record"),
    known(204, "Trace-204", "NonStop: a trace record"),
    written(COMMENT, "GGSComment", "a remark, as tools write them at both ends of an excerpt"),
    known(249, "Trace-249", "NonStop: a trace record"),
    known(250, "Trace-250", "NonStop: a trace record"),
    known(251, "Trace-251", "NonStop: a trace record"),
    known(252, "Trace-252", "NonStop: a trace record"),
    known(253, "Trace-253", "NonStop: a trace record"),
    known(254, "Trace-254", "NonStop: a trace record"),
];

/// The operation with this number, if it is one of the known.
pub fn find(number: u8) -> Option<&'static OperationType> {
    ALL.iter().find(|operation| operation.number == number)
}

/// The name of an operation, as Logdump prints it.
pub fn name(number: u8) -> &'static str {
    find(number).map_or("Unknown", |operation| operation.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_and_those_of_the_public_table_are_all_there() {
        assert!(ALL.is_sorted_by(|one, next| one.number < next.number));
        let listed: Vec<u8> = (1..=19).chain([90]).chain(100..=107).chain(115..=117).collect();
        let listed = listed.into_iter().chain([132, 134, 135, 150, 151, 160, 161, 170]).chain(200..=205);
        for number in listed.chain(249..=254) {
            assert!(find(number).is_some_and(|found| !found.name.is_empty() && !found.meaning.is_empty()), "{number}");
        }
        assert_eq!((name(3), name(151), name(160), name(240)), ("Delete", "RestartOK", "DDLOP", "Unknown"));
    }
}
