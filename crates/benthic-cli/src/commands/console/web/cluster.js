// The page of a cluster's health has its own script; this one starts the bar at the top.
import './common.js';
