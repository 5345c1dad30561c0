//! The analysis by its behaviour, on synthetic runs.
mod arms;
mod compare;
mod figures;
mod limits;
mod quality;
mod steps;
mod validity;
