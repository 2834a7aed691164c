//! Settings of a session that are no matter of display.

/// From when on a transaction is large, and how many are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLimits {
    /// TRANSHIST: how many are listed.
    pub count: usize,
    /// TRANSRECLIMIT.
    pub records: u64,
    /// TRANSBYTELIMIT.
    pub bytes: u64,
}

impl Default for TransactionLimits {
    fn default() -> TransactionLimits {
        TransactionLimits { count: 0, records: 100, bytes: 100_000 }
    }
}

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Large transactions.
    pub transactions: TransactionLimits,
    /// NOTIFY: records between two signs of life.
    pub notify: u64,
    /// SCANSCROLLING.
    pub scrolling: bool,
    /// SAVEFILECOMMENT.
    pub save_comment: bool,
    /// DECRYPT.
    pub decrypts: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            transactions: TransactionLimits::default(),
            notify: 10_000,
            scrolling: true,
            save_comment: true,
            decrypts: false,
        }
    }
}
