//! The analysis by its behaviour, on synthetic runs.
mod arms;
mod caches;
mod compare;
mod figures;
mod instrument;
mod light;
mod limits;
mod quality;
mod steps;
mod validity;
