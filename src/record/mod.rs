//! The run directory: plan, samples, journal, scores, summary. The journal is the truth; everything after it is a
//! pure function of these files.
