/** Version of the product; the same as in package.json and the chart (a test compares them). */
export const VERSION = "0.2.0";
